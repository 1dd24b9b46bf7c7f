package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A hub that is not the one that it was.

// tenant is one with a namespace of its name, in an epoch of the hub, and of its agent.
func tenant(name string, hub, agent int64) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "t", Generation: 1},
		Spec:       v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}},
		Status:     v1alpha1.TenantStatus{HubEpoch: hub, AgentEpoch: agent},
	}
}

// fleetOf are two tenants' objects, and a namespace of no Tenant.
type fleetOf struct {
	web, api, own          *clusterv1.LoadBalancer
	webAt, apiAt, ownAt    *v1alpha1.Address
	webNodes, class_, shop Object
}

func newFleet() fleetOf {
	f := fleetOf{webNodes: targetGroup("shop", v1alpha1.Target{Name: "n1", UID: "n1", Addresses: []string{"10.0.0.1"}}), class_: class(), shop: tenant("shop", 0, 0)}
	f.web, f.webAt = loadBalancer("shop", "web", "192.0.2.1")
	f.api, f.apiAt = loadBalancer("lab", "api", "192.0.2.2")
	f.own, f.ownAt = loadBalancer("ops", "own", "192.0.2.3")
	return f
}

func (f fleetOf) all() []Object {
	return []Object{f.web, f.webAt, f.webNodes, f.api, f.apiAt, f.own, f.ownAt, f.class_, f.shop, tenant("lab", 0, 0)}
}

// ours are the sockets of a fleet.
var ours = []string{"192.0.2.1:80/TCP", "192.0.2.2:80/TCP", "192.0.2.3:80/TCP"}

// lost has all watches break, as when an API server ends.
func (w *world) lost() {
	for r := range resources + 1 {
		w.proxy.inbox.Lost(r)
	}
}

// opened opens the own Proxy's watch; the others' lists open theirs.
func (w *world) opened() {
	w.proxy.inbox.Opened(OwnProxy)
	w.hub.mu.Lock()
	px := w.hub.proxies["edge-1"].DeepCopy()
	w.hub.mu.Unlock()
	if px == nil {
		w.proxy.own.Set(nil, "")
		return
	}
	w.proxy.own.Set(px, px.ResourceVersion)
}

// condition is the Proxy's HubChanged.
func (w *world) condition() metav1.Condition {
	st := w.status()
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionHubChanged); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// isFrozen fails the test unless the proxy says so, for a reason, and proves nothing.
func (w *world) isFrozen(reason string) {
	w.t.Helper()
	st, c := w.status(), w.condition()
	if c.Status != metav1.ConditionTrue || c.Reason != reason || st.Through != (v1alpha1.Through{}) || st.Boot != w.proxy.Boot() {
		w.t.Fatalf("wanted %s and nothing in through; status %+v", reason, st)
	}
}

func (w *world) isThawed(epoch int64) {
	w.t.Helper()
	st, c := w.status(), w.condition()
	if c.Status != metav1.ConditionFalse || st.Through == (v1alpha1.Through{}) || st.Epoch != epoch || st.ThawedEpoch != epoch || len(st.Held) > 0 {
		w.t.Fatalf("wanted HubChanged=False, through and epoch %d; status %+v", epoch, st)
	}
}

// against are the addresses that a namespace's report names as served against the ledger.
func (w *world) against(namespace string) (out []string) {
	r := w.report(namespace)
	if r == nil {
		return nil
	}
	for _, s := range r.Serves {
		out = append(out, s.Address+" "+s.LoadBalancer+" "+strings.Join(s.Ports, ","))
	}
	return out
}

func (w *world) wantAgainst(namespace string, want ...string) {
	w.t.Helper()
	if got := w.against(namespace); !slices.Equal(got, want) {
		w.t.Fatalf("%s serves %v against the ledger, wanted %v", namespace, got, want)
	}
}

// restored is a world whose hub has gone back to before the fleet was there, all of which its proxy served.
func restored(t *testing.T, dir string, f fleetOf) *world {
	w := newWorld(t, dir)
	w.opened()
	w.list(f.class_, tenant("shop", 0, 0))
	settle(time.Second)
	old := w.hub.copy()
	w.set(tenant("lab", 0, 0))
	for _, o := range f.all() {
		w.set(o)
	}
	settle(time.Second)
	w.serves(ours...)
	w.lost()
	w.hub.restore(old)
	w.version = 50
	w.opened()
	settle(time.Second)
	return w
}

func (w *world) fence(f *v1alpha1.Fence) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	px := w.hub.proxies["edge-1"].DeepCopy()
	px.Spec.Fenced = f
	w.hub.put(px)
}

// frozen waits until a process says that the hub has changed.
func (s *site) frozen(p *process) {
	s.t.Helper()
	s.until("the process to say that the hub has changed", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		px := s.hub.proxies["edge-1"]
		return px != nil && px.Status.Boot == p.boot && meta.IsStatusConditionTrue(px.Status.Conditions, v1alpha1.ConditionHubChanged)
	})
}
