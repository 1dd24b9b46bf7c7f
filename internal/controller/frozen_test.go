package controller_test

import (
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func serves(address, loadBalancer string, ports ...string) v1alpha1.ServedAddress {
	return v1alpha1.ServedAddress{Address: address, LoadBalancer: loadBalancer, Ports: ports}
}

// heldBy: granted to that LoadBalancer of the scenario, with those ports.
func (h *hub) heldBy(name, ports string) func(*v1alpha1.Address) error {
	return func(a *v1alpha1.Address) error {
		if len(a.Spec.Holders) != 1 {
			return fmt.Errorf("holders %v", a.Spec.Holders)
		}
		have := a.Spec.Holders[0]
		if a.Spec.Phase != v1alpha1.AddressGranted || have.Namespace != h.name || have.Name != name || fmt.Sprint(have.Ports) != ports {
			return fmt.Errorf("%s to %v", a.Spec.Phase, have)
		}
		return nil
	}
}

// says waits for a condition of the scenario's AddressPool, and for what its message names.
func (h *hub) says(want string, names ...string) {
	h.t.Helper()
	wait(h, h.newPool(), want, func(p *v1alpha1.AddressPool) error {
		kind, _, _ := strings.Cut(want, "=")
		if err := condition(p.Status.Conditions, want); err != nil {
			return err
		}
		for _, name := range names {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); !strings.Contains(c.Message, name) {
				return fmt.Errorf("no %s in %q", name, c.Message)
			}
		}
		return nil
	})
}

// frozen: while a proxy says that the hub has changed, live or not, nothing is granted or freed.
func frozen(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.160/30")
	one, two := h.proxy("1"), h.proxy("2")
	both := func() { one.catchUp(); two.catchUp() }
	both()
	web, going := h.loadBalancer("web", 80), h.loadBalancer("going", 80)
	h.waitFor(web, "AddressGranted=True")
	h.waitFor(going, "AddressGranted=True")
	both()
	h.waitFor(web, "Programmed=True")
	released := h.address(going)
	one.open = 1
	h.delete(going)
	h.gone(going)
	both()
	wait(h, released, "Releasing", isReleasing)

	one.changed = v1alpha1.ReasonHubRestored
	both()
	h.says("Degraded=True/HubRestored", one.name)
	one.open = 0
	both()
	fresh := h.loadBalancer("new", 80)
	h.waitFor(fresh, "AddressGranted=False/HubChanged", "Ready=False/HubChanged")
	if c := meta.FindStatusCondition(fresh.Status.Conditions, clusterv1.ConditionAddressGranted); c.Message != proof.FrozenWait {
		h.t.Errorf("message %q", c.Message)
	}
	h.delete(web)
	h.waitFor(web, "Ready=False/HubChanged")
	wait(h, h.address(web), "kept", h.heldBy("web", "[TCP/80]"))
	wait(h, released, "Releasing", isReleasing)

	// It falls silent: the message says what to do.
	one.die()
	h.says("Degraded=True/HubRestored", one.name, "silent", "spec.fenced", "delete its Proxy")
	two.catchUp()
	h.waitFor(fresh, "AddressGranted=False/HubChanged")
	h.change(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: one.name}}, func(o client.Object) {
		o.(*v1alpha1.Proxy).Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "its host is gone"}
	})
	h.waitFor(fresh, "AddressGranted=True")
	h.gone(web)
	two.catchUp()
	h.gone(released)
	h.says("Degraded=False")
}

// adopted: what a frozen proxy serves gets into the ledger, for whomever it serves.
func adopted(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.168/29")
	p := h.proxy("1")
	p.catchUp()
	web, loser := h.loadBalancer("web", 80), h.loadBalancer("loser", 80)
	h.waitFor(web, "AddressGranted=True")
	h.waitFor(loser, "AddressGranted=True")
	had := h.address(loser)
	fenced := h.proxy("fenced") // counts no more, and has nothing to say
	h.change(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: fenced.name}}, func(o client.Object) {
		o.(*v1alpha1.Proxy).Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "its host is gone"}
	})
	fenced.changed, fenced.serves = v1alpha1.ReasonHubRestored, []v1alpha1.ServedAddress{serves("192.0.2.175", "nobody", "TCP/80")}
	fenced.catchUp()

	p.changed = v1alpha1.ReasonHubRestored
	p.serves = []v1alpha1.ServedAddress{
		serves("192.0.2.170", "lost", "TCP/80", "TCP/443"), // the ledger has no line of it
		serves(addressOf(web), "web", "TCP/80", "TCP/81"),  // a port more
		serves(had.Name, "winner", "TCP/80"),               // another's
	}
	p.catchUp()
	lost := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.170"}}
	wait(h, lost, "adopted", h.heldBy("lost", "[TCP/80 TCP/443]"))
	wait(h, lost, "held", isHeld)
	wait(h, had, "the winner's", h.heldBy("winner", "[TCP/80]"))
	h.waitFor(loser, "AddressGranted=False/HubChanged")
	p.catchUp() // it has nothing left to say

	// What is made again has what it had.
	back := h.loadBalancer("lost", 80, 443)
	h.waitFor(back, "AddressGranted=True")
	if addressOf(back) != lost.Name {
		h.t.Errorf("it has %s", addressOf(back))
	}
	p.changed, p.serves, p.epoch = "", nil, 1
	p.catchUp()
	h.waitFor(loser, "AddressGranted=True")
	if addressOf(loser) == had.Name {
		h.t.Errorf("both have %s", had.Name)
	}
	h.says("Degraded=True/HolderMissing", "adopted/winner")
	for _, name := range []string{"192.0.2.175"} {
		if err := h.api.Get(h.t.Context(), client.ObjectKey{Name: name}, &v1alpha1.Address{}); client.IgnoreNotFound(err) != nil || err == nil {
			h.t.Errorf("%s of a fenced proxy: %v", name, err)
		}
	}
}

// disputed: proxies that contradict each other are named; one that is stale is fenced.
func disputed(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.176/30")
	one, two, three := h.proxy("1"), h.proxy("2"), h.proxy("3")
	three.epoch = 1
	three.catchUp()
	one.changed, one.serves = v1alpha1.ReasonHubRestored, []v1alpha1.ServedAddress{serves("192.0.2.177", "x", "TCP/80")}
	two.changed, two.serves = v1alpha1.ReasonHubRestored, []v1alpha1.ServedAddress{serves("192.0.2.177", "y", "TCP/80")}
	one.catchUp()
	two.catchUp()
	h.says("Degraded=True/ProxiesDisagree", one.name, two.name, "192.0.2.177", "spec.fenced")

	// Nobody claims it for y any more: x has it, or gets it. Then another comes who served it for y, before the epoch of the others.
	two.serves = nil
	two.catchUp()
	address := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.177"}}
	wait(h, address, "the first's", h.heldBy("x", "[TCP/80]"))
	one.changed, one.serves, one.epoch = "", nil, 1
	two.changed, two.epoch = "", 1
	for _, s := range []*standin{one, two, three} {
		s.catchUp()
	}
	late := h.proxy("4")
	late.changed, late.serves = v1alpha1.ReasonHubRestored, []v1alpha1.ServedAddress{serves("192.0.2.177", "y", "TCP/80")}
	late.catchUp()
	wait(h, &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: late.name}}, "fenced", func(p *v1alpha1.Proxy) error {
		if p.Spec.Fenced == nil || p.Spec.Fenced.By != "fairlead-manager" || !strings.Contains(p.Spec.Fenced.Reason, address.Name) {
			return fmt.Errorf("fenced: %+v", p.Spec.Fenced)
		}
		return nil
	})
	wait(h, address, "the first's", h.heldBy("x", "[TCP/80]"))
}

// restoring: a person's word keeps the pool from granting and freeing; what is asked for by name is granted.
func restoring(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.184/29")
	p := h.proxy("1")
	p.catchUp()
	web := h.loadBalancer("web", 80)
	h.waitFor(web, "AddressGranted=True")
	h.change(h.newPool(), func(o client.Object) {
		s := &o.(*v1alpha1.AddressPool).Spec
		s.Restoring, s.Requestable = true, false
	})
	h.says("Degraded=True/Restoring", "spec.restoring")
	fresh := h.loadBalancer("new", 80)
	h.waitFor(fresh, "AddressGranted=False/Pending")
	wish := h.newLoadBalancer("wish", 80)
	wish.Spec.Addresses = []string{"192.0.2.189"}
	h.create(wish)
	h.waitFor(wish, "AddressGranted=True")
	address := h.address(web)
	h.delete(web)
	h.gone(web)
	p.catchUp()
	wait(h, address, "Releasing", isReleasing)
	ghost := h.stray("192.0.2.188", "ghost")
	wait(h, ghost, "held", isHeld)
	h.change(ghost, func(o client.Object) {
		o.GetAnnotations()[v1alpha1.AnnotationHeldUntil] = time.Now().UTC().Format(time.RFC3339)
	})
	p.catchUp()
	h.change(h.newPool(), func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.Restoring = false })
	h.waitFor(fresh, "AddressGranted=True")
	if addressOf(fresh) == address.Name || addressOf(fresh) == ghost.Name {
		h.t.Errorf("granted %s, which was not free", addressOf(fresh))
	}
	h.gone(address)
	h.expire(ghost)
}
