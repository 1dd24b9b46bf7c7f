package build

import (
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// noIdle is a data plane that cannot express idle timeouts.
func noIdle(s *lb.Snapshot) []lb.Problem {
	var out []lb.Problem
	for _, f := range s.Frontends {
		if f.IdleTimeout > 0 {
			out = append(out, lb.Problem{
				Object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.ID.Tenant), Name: f.ID.LoadBalancer, Port: f.ID.Port, Protocol: f.ID.Protocol},
				Field:  "spec.idleTimeout", Reason: clusterv1.ReasonNotSupported, Message: "no idle timeouts here: remove it",
			})
		}
	}
	return out
}

// shop has one LoadBalancer, web, with an address and targets of each of two TargetGroups.
func shop() (*clusterv1.LoadBalancer, []metav1.Object) {
	l := goodLoadBalancer()
	group := func(app, address string) *v1alpha1.TargetGroup {
		return &v1alpha1.TargetGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app, Labels: map[string]string{"app": app}},
			Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: app, UID: app, Addresses: []string{address}}}},
		}
	}
	return l, []metav1.Object{
		goodClass(), l, group("web", "10.0.0.1"), group("db", "10.0.0.2"),
		&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.7"}, Spec: v1alpha1.AddressSpec{
			Address: "192.0.2.7", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
			Holders: []v1alpha1.Holder{{Namespace: "shop", Name: "web", Ports: []string{"TCP/80", "TCP/443"}}},
		}},
	}
}

func TestWhatTheDataPlaneCannotExpressKeepsItsLastGoodForm(t *testing.T) {
	l, objects := shop()
	b := New(Options{ProxyPool: "edge", Check: noIdle})
	for _, o := range objects {
		b.Set(o)
	}
	good := b.Program()
	b.SetLastGood(good)

	// The change that can't be expressed sends elsewhere, too: nothing of it is served.
	bad := l.DeepCopy()
	bad.Spec.IdleTimeout = duration(time.Minute)
	bad.Spec.Selector.MatchLabels["app"] = "db"
	b.Set(bad)
	kept := b.Program()
	s := kept.Tenants["shop"]
	if c := lb.Diff(good, kept); !c.Empty() {
		t.Fatalf("served otherwise: %+v", c)
	}
	if len(s.Refused) != 2 || s.Refused[0].Field != "spec.idleTimeout" {
		t.Fatalf("%+v", s.Refused)
	}

	// Members of the last good form are today's.
	moved := objects[2].(*v1alpha1.TargetGroup).DeepCopy()
	moved.Spec.Targets[0].Addresses = []string{"10.0.0.9"}
	b.Set(moved)
	g := b.Program().Tenants["shop"].Groups["IPv4:app=web"]
	if len(g.Members) != 1 || g.Members[0].Address.String() != "10.0.0.9" {
		t.Fatalf("%+v", g)
	}

	// What withdraws the frontend withdraws its last good form.
	for name, withdraw := range map[string]metav1.Object{
		"ledger":     &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.7"}, Spec: v1alpha1.AddressSpec{Address: "192.0.2.7", ProxyPool: "edge", Phase: v1alpha1.AddressReleasing}},
		"suspension": &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.TenantSpec{Suspend: true}},
		"permission": &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.TenantSpec{Classes: []string{"core"}}},
		"deletion": func() metav1.Object {
			x := bad.DeepCopy()
			x.DeletionTimestamp = &metav1.Time{}
			return x
		}(),
	} {
		gone := New(Options{ProxyPool: "edge", Check: noIdle, LastGood: good})
		for _, o := range append(slices.Clone(objects), bad, withdraw) {
			gone.Set(o)
		}
		if p := gone.Program(); len(p.Listeners) > 0 {
			t.Errorf("%s: still served: %+v", name, p.Listeners)
		}
	}

	// Mended, it is served as it stands, and nothing of the last good form is left behind.
	mended := bad.DeepCopy()
	mended.Spec.IdleTimeout = nil
	b.Set(mended)
	s = b.Program().Tenants["shop"]
	if len(s.Refused) > 0 || len(s.Groups) != 1 || s.Groups["IPv4:app=db"] == nil {
		t.Fatalf("%+v", s)
	}
	if n := b.namespaces["shop"]; len(n.choices) != 1 || len(n.kept) != 0 {
		t.Errorf("left behind: %v %v", n.choices, n.kept)
	}
}

func TestWithoutALastGoodFormItIsLeftOut(t *testing.T) {
	l, objects := shop()
	l.Spec.IdleTimeout = duration(time.Minute)
	b := New(Options{ProxyPool: "edge", Check: noIdle})
	for _, o := range objects {
		b.Set(o)
	}
	p := b.Program()
	if s := p.Tenants["shop"]; len(p.Listeners) > 0 || len(s.Refused) != 2 {
		t.Fatalf("%+v", s)
	}
}

// A data plane may refuse one address of a port, and serve the other.
func TestARefusedAddressCostsNoOther(t *testing.T) {
	_, objects := shop()
	six := objects[4].(*v1alpha1.Address).DeepCopy()
	six.Name, six.Spec.Address = "fd00-7", "fd00::7"
	check := func(s *lb.Snapshot) []lb.Problem {
		var out []lb.Problem
		for _, f := range s.Frontends {
			if f.ID.Address.Is6() {
				out = append(out, lb.Problem{Object: lb.ObjectRef{
					Kind: lb.KindLoadBalancer, Namespace: "shop", Name: f.ID.LoadBalancer, Port: f.ID.Port, Protocol: f.ID.Protocol, Address: f.ID.Address,
				}, Field: "spec.ipFamilies", Reason: clusterv1.ReasonNotSupported})
			}
		}
		return out
	}
	b := New(Options{ProxyPool: "edge", Check: check})
	for _, o := range append(objects, six) {
		b.Set(o)
	}
	p := b.Program()
	if len(p.Listeners) != 2 || !p.Listeners[0].Socket.Address.Is4() || !p.Listeners[1].Socket.Address.Is4() || len(p.Tenants["shop"].Refused) != 2 {
		t.Errorf("%+v", p.Listeners)
	}
}

func TestAProxyWithoutAZoneSaysThatItPrefersNone(t *testing.T) {
	l, objects := shop()
	l.Spec.TrafficDistribution = clusterv1.PreferSameZone
	for zone, want := range map[string]int{"": 1, "east": 0} {
		b := New(Options{ProxyPool: "edge", Zone: zone})
		for _, o := range objects {
			b.Set(o)
		}
		s := b.Program().Tenants["shop"]
		if len(s.Frontends) != 2 || len(s.Refused) != want || want > 0 && s.Refused[0].Effect != lb.ServedWithout {
			t.Errorf("zone %q: %+v", zone, s.Refused)
		}
		for _, p := range s.Pools {
			if p.Zone != zone {
				t.Errorf("zone %q: %+v", zone, p)
			}
		}
	}
}

func TestGroupIDsCanBeReadBack(t *testing.T) {
	for _, l := range []*metav1.LabelSelector{
		nil, {MatchLabels: map[string]string{"a/b": "c", "d": ""}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "x", Operator: "In", Values: []string{"2", "1"}}, {Key: "y", Operator: "NotIn", Values: []string{"1"}},
			{Key: "z", Operator: "Exists"}, {Key: "w", Operator: "DoesNotExist"},
		}},
	} {
		x := goodLoadBalancer()
		x.Spec.Selector = l
		s, err := Selector(x)
		if err != nil {
			t.Fatal(err)
		}
		for want := range families {
			f, key, ok := parseGroupID(groupID(want, selectionKey(s)))
			again, err := parseSelectionKey(key)
			if !ok || f != want || err != nil || selectionKey(again) != key {
				t.Errorf("%v: %v %q, %v, %v", l, f, key, again, err)
			}
		}
	}
}
