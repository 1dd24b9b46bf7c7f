package controller_test

import (
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func addressesOf(l *clusterv1.LoadBalancer) string {
	var out []string
	for _, a := range l.Status.Addresses {
		out = append(out, string(a.Family)+" "+a.Value)
	}
	return strings.Join(out, ", ")
}

// hold waits until an Address lists those holders.
func (h *hub) hold(name, want string) {
	h.t.Helper()
	wait(h, &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: name}}, want, func(a *v1alpha1.Address) error {
		var out []string
		for _, x := range a.Spec.Holders {
			out = append(out, fmt.Sprintf("%s/%s %s", x.Namespace, x.Name, strings.Join(x.Ports, " ")))
		}
		if got := strings.Join(out, ", "); got != want || a.Spec.Phase != v1alpha1.AddressGranted {
			return fmt.Errorf("%s by %s", a.Spec.Phase, got)
		}
		return nil
	})
}

// families: a LoadBalancer gets the families that it asks for, UDP beside TCP; where both are required it waits for
// both, and says which pool has what not; what becomes free comes to who prefers it.
func families(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("203.0.113.104/30", "fd00:4::7/128")
	p := h.proxy("1")
	p.catchUp()
	create := func(name string, policy clusterv1.IPFamilyPolicy, families ...clusterv1.IPFamily) *clusterv1.LoadBalancer {
		l := h.newLoadBalancer(name, 80)
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: 53, Protocol: clusterv1.ProtocolUDP})
		l.Spec.IPFamilyPolicy, l.Spec.IPFamilies = policy, families
		h.create(l)
		return l
	}
	both := h.waitFor(create("both", clusterv1.RequireDualStack, clusterv1.IPv6), "AddressGranted=True")
	if got := addressesOf(both); got != "IPv6 fd00:4::7, IPv4 203.0.113.104" {
		h.t.Errorf("got %s", got)
	}
	h.hold("fd00-4-0-0-0-0-0-7", h.name+"/both UDP/53 TCP/80")
	h.hold("203.0.113.104", h.name+"/both UDP/53 TCP/80")
	p.catchUp()
	h.waitFor(both, "Programmed=True", "Ready=True")

	required := create("required", clusterv1.RequireDualStack)
	h.waitFor(required, "AddressGranted=False/PoolExhausted", "Ready=False/PoolExhausted")
	if c := meta.FindStatusCondition(required.Status.Conditions, "AddressGranted"); !strings.Contains(c.Message, "pool "+h.name+" has no free IPv6") || len(required.Status.Addresses) > 0 {
		h.t.Errorf("%s, holds %s", c.Message, addressesOf(required))
	}
	preferred := h.waitFor(create("preferred", clusterv1.PreferDualStack, clusterv1.IPv4), "AddressGranted=True")
	if got := addressesOf(preferred); got != "IPv4 203.0.113.105" {
		h.t.Errorf("got %s", got)
	}
	p.catchUp()
	h.waitFor(preferred, "Programmed=True", "Degraded=True/PoolExhausted")

	// The older of those who wait for it gets it, with the other family at once.
	h.change(both, func(o client.Object) {
		s := &o.(*clusterv1.LoadBalancer).Spec
		s.IPFamilyPolicy, s.IPFamilies = clusterv1.SingleStack, []clusterv1.IPFamily{clusterv1.IPv4}
	})
	six := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "fd00-4-0-0-0-0-0-7"}}
	wait(h, six, "Releasing", isReleasing)
	p.catchUp()
	h.waitFor(both, "AddressGranted=True", "Programmed=True")
	if got := addressesOf(both); got != "IPv4 203.0.113.104" {
		h.t.Errorf("got %s", got)
	}
	h.waitFor(required, "AddressGranted=True")
	if got := addressesOf(required); got != "IPv4 203.0.113.106, IPv6 fd00:4::7" {
		h.t.Errorf("got %s", got)
	}
	h.delete(required)
	h.gone(required)
	p.catchUp()
	h.hold(six.Name, h.name+"/preferred UDP/53 TCP/80")
	p.catchUp()
	wait(h, preferred, "both", func(l *clusterv1.LoadBalancer) error {
		if got := addressesOf(l); got != "IPv4 203.0.113.105, IPv6 fd00:4::7" {
			return errors.New(got)
		}
		return condition(l.Status.Conditions, "Degraded=False")
	})
	pool := h.newPool()
	wait(h, pool, "counted", func(p *v1alpha1.AddressPool) error {
		if p.Status.Granted != 3 {
			return fmt.Errorf("%+v", p.Status)
		}
		return nil
	})
}

// anyone: where the pool says so, two tenants share an address, on different ports and protocols.
func anyone(h *hub) {
	h.manager(app.LeaderElection{})
	pool := h.newPool("203.0.113.108/31")
	pool.Spec.Share = v1alpha1.ShareAny
	h.create(pool, h.newClass())
	h.tenant()
	other := &hub{t: h.t, control: h.control, api: h.api, name: h.name + "-2"}
	other.tenant()
	p := h.proxy("1")
	p.catchUp()
	create := func(h *hub, name string, ports ...clusterv1.Port) *clusterv1.LoadBalancer {
		l := h.newLoadBalancer(name)
		l.Spec.ClassName, l.Spec.Ports, l.Spec.Addresses = pool.Name, ports, []string{"203.0.113.109"}
		h.create(l)
		return l
	}
	tcp, udp := clusterv1.Port{Port: 53, Protocol: clusterv1.ProtocolTCP}, clusterv1.Port{Port: 53, Protocol: clusterv1.ProtocolUDP}
	first := h.waitFor(create(h, "first", tcp), "AddressGranted=True")
	p.catchUp()
	h.waitFor(first, "Programmed=True")
	second := create(other, "second", udp)
	p.catchUp()
	other.waitFor(second, "AddressGranted=True")
	p.catchUp()
	other.waitFor(second, "Programmed=True")
	h.hold("203.0.113.109", fmt.Sprintf("%s/first TCP/53, %s/second UDP/53", h.name, other.name))

	clash := create(other, "clash", tcp)
	other.waitFor(clash, "AddressGranted=False/PortInUse")
	if c := meta.FindStatusCondition(clash.Status.Conditions, "AddressGranted"); !strings.Contains(c.Message, "another tenant") || strings.Contains(c.Message, "first") {
		h.t.Errorf("says %q", c.Message)
	}
	// The one who goes takes its port along, and nothing else.
	h.delete(first)
	h.gone(first)
	p.catchUp()
	other.waitFor(clash, "AddressGranted=True")
	h.hold("203.0.113.109", fmt.Sprintf("%s/clash TCP/53, %s/second UDP/53", other.name, other.name))
}
