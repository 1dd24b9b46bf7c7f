package loadbalancer

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// stage has a LoadBalancer with ports of the hosts of pool edge, and what the real Fleet was told of the proxies.
type stage struct {
	*testing.T
	*Reconciler
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	lb      *clusterv1.LoadBalancer
	held    []ipam.Entry
	version proof.Version // of the Address
	reports []any
	reached string // of reports
}

func newStage(t *testing.T, ports ...int32) *stage {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	keeper := ledger.New(ledger.Options{
		Logger: log, Settled: func(string, proof.Version) bool { return true },
		PoolsOf: func(string) []string { return []string{"hosts"} }, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {},
	})
	s := &stage{T: t, version: 5, reached: "1"}
	s.lb = &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web", UID: "u", Generation: 3, ResourceVersion: "5"}}
	s.Reconciler = New(Options{Logger: log, Keeper: keeper, Versions: kit.NewVersions(), Fleet: fleet.New(fleet.Options{Logger: log, Now: time.Now}), Now: time.Now})
	s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(s.queue.ShutDown)
	if err := s.Queue.Start(t.Context(), s.queue); err != nil {
		t.Fatal(err)
	}
	for _, n := range ports {
		s.lb.Spec.Ports = append(s.lb.Spec.Ports, port(n))
		s.hold(netip.IPv4Unspecified(), n)
	}
	return s
}

// hold grants a port of all hosts.
func (s *stage) hold(family netip.Addr, n int32) {
	p := ipam.Port{Protocol: "TCP", Number: n}
	s.held = append(s.held, ipam.Entry{
		Name: ipam.What{Address: family, Hosts: "edge", Port: p}.Name(), Address: family, Port: p, Pool: "hosts", ProxyPool: "edge", Phase: ipam.Granted,
		Holders: []ipam.Holder{{Ref: ipam.Ref{Namespace: "prod", Name: "web"}, Ports: []ipam.Port{p}}},
	})
}

// says is a proxy's word: its host's address, up to which version it has applied everything, and what it refuses of the LoadBalancer.
func (s *stage) says(name, address, through string, change func(*v1alpha1.Proxy), refused ...int32) {
	s.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: "edge", Addresses: []string{address}}}
	p.Status = v1alpha1.ProxyStatus{Boot: "b", Seq: 1, Phase: v1alpha1.ProxyServing, Reports: "1", Through: v1alpha1.Through{
		LoadBalancers: through, Addresses: through, TargetGroups: through, LoadBalancerClasses: through, Tenants: through,
	}}
	if change != nil {
		change(p)
	}
	s.Fleet.SetProxy(p)
	for range 2 { // once listed, then renewed
		now := metav1.NewMicroTime(time.Now())
		s.Fleet.SetLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}})
	}
	s.reports = slices.DeleteFunc(s.reports, func(r any) bool { return r.(*v1alpha1.ProxyReport).Name == name })
	if len(refused) > 0 {
		r := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Boot: "b"}
		for _, n := range refused {
			r.Refused = append(r.Refused, v1alpha1.RefusedFrontend{LoadBalancer: "web", Port: n, Problem: v1alpha1.Problem{Reason: clusterv1.ReasonPortInUse, Message: "it is in use"}})
		}
		s.reports = append(s.reports, r)
	}
	s.report(s.reached)
}

// report tells the Fleet of all reports up to a version.
func (s *stage) report(version string) {
	s.Helper()
	s.reached = version
	if err := s.Fleet.Reports().Replace(s.reports, version); err != nil {
		s.Fatal(err)
	}
}

// told tells the reconciler that the fleet changed, and says whether the LoadBalancer was woken.
func (s *stage) told() bool {
	s.fleetChanged(fleet.Change{Pools: map[string]struct{}{"edge": {}}})
	woken := s.queue.Len() > 0
	for s.queue.Len() > 0 {
		key, _ := s.queue.Get()
		s.queue.Done(key)
	}
	return woken
}

// shows judges, writes the status, and checks the addresses and Programmed's reason.
func (s *stage) shows(reason string, want ...string) {
	s.Helper()
	f := facts{lb: s.lb, grant: ledger.Grant{Held: s.held, Version: s.version}, groups: []string{"nodes-0"}}
	s.judge(s.lb, &inputs{}, &f)
	s.lb.Status = describe(f)
	var got []string
	for _, a := range s.lb.Status.Addresses {
		got = append(got, a.Value)
	}
	c := meta.FindStatusCondition(s.lb.Status.Conditions, clusterv1.ConditionProgrammed)
	if !slices.Equal(got, want) || c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == clusterv1.ReasonProgrammed) {
		s.Errorf("shown at %v, %s=%s/%s (%s); want %v, %s", got, c.Type, c.Status, c.Reason, c.Message, want, reason)
	}
}

// degraded checks that condition as it was written last.
func (s *stage) degraded(reason, message string) {
	s.Helper()
	if c := meta.FindStatusCondition(s.lb.Status.Conditions, clusterv1.ConditionDegraded); c.Reason != reason || c.Message != message {
		s.Errorf("%+v; want %s %q", c, reason, message)
	}
}

// A host whose proxy can't serve a port that another serves would take half of the clients for nothing.
func TestAHostThatRefusesIsNotShown(t *testing.T) {
	const yes = clusterv1.ReasonProgrammed
	s := newStage(t, 20001)
	s.says("a", "192.0.2.20", "9", nil)
	s.shows(yes, "192.0.2.20")
	s.says("b", "192.0.2.21", "9", nil, 20001)
	s.shows(yes, "192.0.2.20")
	s.degraded(clusterv1.ReasonPortInUse, "Refused by proxies whose hosts are not shown: TCP/20001 PortInUse (It is in use).")
	s.lb.Generation++ // nor does it take anything away when the LoadBalancer is edited
	s.shows(yes, "192.0.2.20")
	s.degraded(clusterv1.ReasonPortInUse, "Refused by proxies whose hosts are not shown: TCP/20001 PortInUse (It is in use).")
	s.says("b", "192.0.2.21", "9", nil)
	s.shows(yes, "192.0.2.20", "192.0.2.21")
	s.degraded(clusterv1.ReasonAsExpected, "")
	s.says("a", "192.0.2.20", "9", nil, 20001) // shown is shown
	s.shows(yes, "192.0.2.20", "192.0.2.21")
	const somewhere = "No port is served everywhere: TCP/20001 PortInUse (It is in use)."
	s.degraded(clusterv1.ReasonNotServed, somewhere)
	s.lb.Generation++ // and served is served, where it is, when the LoadBalancer is edited
	s.shows(yes, "192.0.2.20", "192.0.2.21")
	s.degraded(clusterv1.ReasonNotServed, somewhere)
	if p := s.lb.Status.Ports; len(p) != 1 || p[0].Error != clusterv1.ReasonPortInUse {
		t.Errorf("ports %+v", p)
	}
	s.says("b", "192.0.2.21", "9", nil, 20001)
	s.shows(yes, "192.0.2.20", "192.0.2.21")
	s.lb.Generation++ // no host serves it
	s.shows(clusterv1.ReasonNotServed, "192.0.2.20", "192.0.2.21")
	s.says("b", "192.0.2.21", "9", nil)
	s.shows(yes, "192.0.2.20", "192.0.2.21")

	s = newStage(t, 20001, 20002)
	s.says("a", "192.0.2.20", "9", nil, 20002)
	s.shows(yes, "192.0.2.20") // the only one: a port is better than none
	s.says("b", "192.0.2.21", "9", nil, 20002)
	s.shows(yes, "192.0.2.20", "192.0.2.21") // it is no worse
	s.says("c", "192.0.2.22", "9", nil, 20001)
	s.shows(yes, "192.0.2.20", "192.0.2.21", "192.0.2.22") // none serves both
	s.says("d", "192.0.2.23", "9", nil)
	s.says("e", "192.0.2.24", "9", nil, 20001)
	s.says("f", "192.0.2.25", "9", nil, 0)
	s.shows(yes, "192.0.2.20", "192.0.2.21", "192.0.2.22", "192.0.2.23")

	// One that restarts and serves all is not forgotten meanwhile.
	s = newStage(t, 20001, 20002)
	s.says("a", "192.0.2.20", "9", nil)
	s.shows(yes, "192.0.2.20")
	s.says("a", "192.0.2.20", "9", func(p *v1alpha1.Proxy) { p.Status.Phase = v1alpha1.ProxyStarting })
	s.says("b", "192.0.2.21", "9", nil, 20002)
	s.shows(yes, "192.0.2.20")
	s.told()
	s.Keeper.Observe(&v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: "hosts-edge.ipv4.tcp.20001", UID: "a", ResourceVersion: "5"},
		Spec: v1alpha1.AddressSpec{Address: "0.0.0.0", Pool: "hosts", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
			Holders: []v1alpha1.Holder{{Namespace: "prod", Name: "web", Ports: []string{"TCP/20001"}}}},
	})
	if s.told() {
		t.Error("the LoadBalancer is looked at without news")
	}
	s.Fleet.DeleteLease("a") // one that is silent keeps no host hidden that works
	if !s.told() {
		t.Error("the LoadBalancer isn't looked at when a host falls silent before it served again")
	}
	s.shows(yes, "192.0.2.20", "192.0.2.21")
}

// What hosts of one family serve says nothing of those of the other.
func TestHostsAreComparedWithinAFamily(t *testing.T) {
	s := newStage(t, 20001, 20002)
	s.hold(netip.IPv6Unspecified(), 20001)
	s.hold(netip.IPv6Unspecified(), 20002)
	s.says("a", "192.0.2.20", "9", nil, 20002)
	s.says("b", "2001:db8::20", "9", nil)
	s.shows(clusterv1.ReasonProgrammed, "192.0.2.20", "2001:db8::20")
}

// A host is shown when its proxy has applied the LoadBalancer and what the ledger gives it, not before.
func TestAHostIsShownOnceItServes(t *testing.T) {
	const yes = clusterv1.ReasonProgrammed
	s := newStage(t, 20001)
	s.says("a", "192.0.2.20", "9", nil)
	s.shows(yes, "192.0.2.20")
	s.told()
	s.says("b", "192.0.2.21", "4", nil) // through everything that there was before the LoadBalancer
	if !s.told() {
		t.Error("the LoadBalancer isn't looked at when a host joins")
	}
	s.shows(yes, "192.0.2.20")
	s.says("b", "192.0.2.21", "5", nil)
	if !s.told() {
		t.Error("the LoadBalancer isn't looked at when the host serves it")
	}
	s.shows(yes, "192.0.2.20", "192.0.2.21")
	if s.joining.count() != 0 {
		t.Error("a host is awaited still")
	}
}

// However a live proxy's word falls short when its host joins, the host is looked at again when it no longer does.
func TestAHostThatJoinsIsLookedAtUntilItIsShown(t *testing.T) {
	const yes = clusterv1.ReasonProgrammed
	for name, short := range map[string]func(*stage){
		"its reports are not here yet": func(s *stage) {
			s.says("b", "192.0.2.21", "9", func(p *v1alpha1.Proxy) { p.Status.Reports = "8" })
		},
		"it could not write its report": func(s *stage) {
			s.says("b", "192.0.2.21", "9", func(p *v1alpha1.Proxy) { p.Status.Held = []string{"prod"} })
		},
		"its report is truncated": func(s *stage) {
			s.says("b", "192.0.2.21", "9", nil, 443)
			s.reports[0].(*v1alpha1.ProxyReport).Truncated = true
			s.report("1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 20001)
			s.says("a", "192.0.2.20", "9", nil)
			s.shows(yes, "192.0.2.20")
			s.says("b", "192.0.2.21", "9", nil)
			s.told() // it serves: the one edge that there is
			short(s)
			s.told()
			s.shows(yes, "192.0.2.20")
			s.says("b", "192.0.2.21", "9", nil)
			if !s.told() {
				t.Error("the LoadBalancer isn't looked at again")
			}
			s.shows(yes, "192.0.2.20", "192.0.2.21")
		})
	}
}

// Where no host has an address of the family, nothing is served, whatever the proxies have applied.
func TestPortsOfHostsWithoutAnAddressAreNotServed(t *testing.T) {
	s := newStage(t, 20001)
	s.shows(clusterv1.ReasonNoProxies)
	s.says("a", "2001:db8::20", "9", nil)
	s.shows(clusterv1.ReasonNotServed)
	c := meta.FindStatusCondition(s.lb.Status.Conditions, clusterv1.ConditionReady)
	const want = "No proxy of pool edge serves it on an IPv4 address of its host: the hub's operator starts one there with such an --address."
	if c.Status != metav1.ConditionFalse || c.Message != want {
		t.Errorf("%+v", c)
	}
	s.says("b", "192.0.2.21", "9", nil)
	s.shows(clusterv1.ReasonProgrammed, "192.0.2.21")
	s.Fleet.DeleteProxy(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	s.shows(clusterv1.ReasonNotServed)
}

// What one family's hosts serve is served, whether or not those of a family that it can do without are there.
func TestAFamilyWithoutHostsIsMissedAlone(t *testing.T) {
	const yes, six = clusterv1.ReasonProgrammed, "No proxy of pool edge serves it on an IPv6 address of its host: the hub's operator starts one there with such an --address."
	dual := func(policy clusterv1.IPFamilyPolicy) *stage {
		s := newStage(t, 20001)
		s.hold(netip.IPv6Unspecified(), 20001)
		s.lb.Spec.IPFamilyPolicy = policy
		s.says("a", "192.0.2.20", "9", nil)
		return s
	}
	s := dual(clusterv1.PreferDualStack) // granted before hosts were known
	s.shows(yes, "192.0.2.20")
	s.degraded(clusterv1.ReasonFamilyNotInPool, six)
	s.says("b", "2001:db8::20", "9", nil)
	s.shows(yes, "192.0.2.20", "2001:db8::20")
	s.degraded(clusterv1.ReasonAsExpected, "")
	s.Fleet.DeleteProxy(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	s.shows(yes, "192.0.2.20")
	s.says("c", "192.0.2.21", "4", nil)
	s.shows(yes, "192.0.2.20") // one that joins takes nothing away
	s.says("c", "192.0.2.21", "9", nil)
	s.shows(yes, "192.0.2.20", "192.0.2.21") // what goes on in IPv4 is shown
	s.degraded(clusterv1.ReasonFamilyNotInPool, six)

	s = dual(clusterv1.RequireDualStack)
	s.shows(clusterv1.ReasonNotServed, "192.0.2.20")
}
