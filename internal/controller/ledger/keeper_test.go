package ledger

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

func newKeeper(t testing.TB, s *store, wake func(ipam.Ref), ranges ...string) *Keeper {
	t.Helper()
	k := New(Options{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Client: s, Reader: s,
		Settled: func(string, proof.Version) bool { return true },
		Wake:    wake, Changed: func(_, _ []string) {},
	})
	p := ipam.Pool{Name: "public", Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded, Requestable: true}
	for _, text := range ranges {
		r, err := ipam.ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Ranges = append(p.Ranges, r)
	}
	k.SetPools([]ipam.Pool{p})
	return k
}

func ignore(ipam.Ref) {}

func needsOf(i int) ipam.Needs {
	namespace := fmt.Sprintf("t%d", i%3)
	return ipam.Needs{
		Ref: ipam.Ref{Namespace: namespace, Name: fmt.Sprintf("lb-%d", i)}, Created: time.Unix(int64(i), 0),
		Owner: ipam.Owner{Namespace: namespace, Tenant: namespace, Quota: ipam.NoQuota},
		Ports: []ipam.Port{{Protocol: "TCP", Number: 80}}, Pools: []string{"public"}, ProxyPool: "edge",
	}
}

// TestManyAtOnce: concurrent grants collide neither with each other nor with another manager's, and cost one write each.
func TestManyAtOnce(t *testing.T) {
	s := newStore(1, 0)
	one, two := newKeeper(t, s, ignore, "192.0.2.0/24"), newKeeper(t, s, ignore, "192.0.2.0/24")
	defer s.watch(one)()
	defer s.watch(two)()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if g, err := []*Keeper{one, two}[i%2].Grant(t.Context(), needsOf(i)); err != nil || len(g.Held) == 0 {
				t.Errorf("%d: %+v, %v", i, g, err)
			}
		})
	}
	all.Wait()
	if len(s.objects) != 100 || s.version != 100 {
		t.Errorf("%d addresses by %d writes", len(s.objects), s.version)
	}
}

// TestFaults: whatever fails, is lost, or is done by a second manager at the same time: once all has
// come to rest, memory says what the API server says, each LoadBalancer has one address, and none is lost.
func TestFaults(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { faults(t, seed) })
	}
}

func faults(t *testing.T, seed uint64) {
	const lbs = 24
	s := newStore(seed, 0.3)
	keepers := []*Keeper{newKeeper(t, s, ignore, "192.0.2.0/28"), newKeeper(t, s, ignore, "192.0.2.0/28")}
	finish := []func(){s.watch(keepers[0]), s.watch(keepers[1])}
	ctx := context.Background()
	var all sync.WaitGroup
	for i := range lbs {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range 30 {
				k, n := keepers[random.IntN(2)], needsOf(i)
				switch random.IntN(5) {
				case 0:
					_ = k.Release(ctx, n.Ref) // may fail: tried again below
				case 1:
					n.Wanted = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(16))})}
					n.Ports[0].Number = int32(80 + i)
					_, _ = k.Grant(ctx, n) // likewise
				case 2:
					for _, a := range k.Releasing("edge") {
						_ = k.Free(ctx, a.Object) // likewise
					}
				default:
					_, _ = k.Grant(ctx, n) // likewise
				}
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	if s.denied == 0 {
		t.Error("nothing failed")
	}
	s.faults = 0
	s.mu.Unlock()

	// One manager goes on, as its controllers would: every LoadBalancer once more, and what is released is freed.
	k := keepers[0]
	finish[0]()
	finish[1]()
	held := map[netip.Addr]ipam.Ref{}
	for i := range lbs {
		n := needsOf(i)
		if i%2 == 0 {
			if err := k.Release(ctx, n.Ref); err != nil {
				t.Fatal(err)
			}
		} else if _, err := k.Grant(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	for range lbs {
		for _, a := range k.Releasing("edge") {
			if err := k.Free(ctx, a.Object); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := 1; i < lbs; i += 2 {
		g, err := k.Grant(ctx, needsOf(i))
		if err != nil || len(g.Held) == 0 {
			t.Fatalf("%d: %+v, %v", i, g, err)
		}
		held[g.Held[0].Address] = needsOf(i).Ref
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unwritten) != 0 || len(k.objects) != len(s.objects) || len(k.ledger.All()) != len(s.objects) {
		t.Errorf("%d unwritten, %d objects and %d entries in memory, %d in the API server", len(k.unwritten), len(k.objects), len(k.ledger.All()), len(s.objects))
	}
	holders := map[ipam.Ref]string{}
	for name, a := range s.objects {
		if r := k.objects[name]; r == nil || r.object.ResourceVersion != a.ResourceVersion {
			t.Errorf("%s in memory is not the API server's", name)
		}
		if e, err := toEntry(a); err != nil || !e.Equal(mustGet(k, name)) {
			t.Errorf("%s: the ledger says %+v, the API server %+v", name, mustGet(k, name), a.Spec)
		}
		if a.Spec.Phase != v1alpha1.AddressGranted {
			t.Errorf("%s is %s", name, a.Spec.Phase)
		}
		for _, h := range a.Spec.Holders {
			r := ipam.Ref{Namespace: h.Namespace, Name: h.Name}
			if other, ok := holders[r]; ok {
				t.Errorf("%s holds %s and %s", r, other, name)
			}
			holders[r] = name
		}
	}
	if len(holders) != lbs/2 {
		t.Errorf("%d hold an address, want %d", len(holders), lbs/2)
	}
}

func mustGet(k *Keeper, name string) ipam.Entry {
	e, _ := k.ledger.Get(name)
	return e
}

// TestOldestWaiterIsServedFirst, even though a newcomer asks in the moment that an address is freed.
func TestOldestWaiterIsServedFirst(t *testing.T) {
	s := newStore(1, 0)
	var woken []ipam.Ref
	k := newKeeper(t, s, func(r ipam.Ref) { woken = append(woken, r) }, "192.0.2.0/32")
	grant := func(i int) Grant {
		t.Helper()
		g, err := k.Grant(t.Context(), needsOf(i))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if len(grant(9).Held) == 0 {
		t.Fatal("the first gets nothing")
	}
	for _, i := range []int{5, 3, 4} {
		if g := grant(i); len(g.Held) > 0 || g.Reason != clusterv1.ReasonPoolExhausted {
			t.Fatalf("%d: %+v", i, g)
		}
	}
	if err := k.Release(t.Context(), needsOf(9).Ref); err != nil {
		t.Fatal(err)
	}
	if g := grant(3); len(g.Held) > 0 {
		t.Fatal("granted while it is being released")
	}
	woken = nil
	a, _ := k.Get("192.0.2.0")
	if err := k.Free(t.Context(), a.Object); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(woken, needsOf(3).Ref) {
		t.Errorf("woken %v, want the oldest among them", woken)
	}
	if g := grant(1); len(g.Held) > 0 {
		t.Error("a newcomer overtakes the waiters")
	}
	if g := grant(3); len(g.Held) == 0 {
		t.Errorf("the oldest: %+v", g)
	}
	if g := grant(4); len(g.Held) > 0 {
		t.Error("two hold one address")
	}
}

// TestLateNewsOfTheDead: an update that arrives after we deleted an Address doesn't bring it back.
// TestWhoHoldsAnAddressHearsOfWhatElseItWants: a port or an address that another gave up.
func TestWhoHoldsAnAddressHearsOfWhatElseItWants(t *testing.T) {
	s := newStore(1, 0)
	woken := map[ipam.Ref]int{}
	k := newKeeper(t, s, func(r ipam.Ref) { woken[r]++ }, "192.0.2.0/30")
	first, second := needsOf(0), needsOf(3)
	second.Ports = []ipam.Port{{Protocol: "TCP", Number: 443}}
	second.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.0")}
	grant := func(n ipam.Needs, reason string, ports int) {
		t.Helper()
		g, err := k.Grant(t.Context(), n)
		if err != nil || len(g.Held) == 0 || g.Reason != reason {
			t.Fatalf("%+v, %v", g, err)
		}
		if h, _ := g.Held[0].Holder(n.Ref); len(h.Ports) != ports {
			t.Fatalf("holds %v", h.Ports)
		}
	}
	grant(first, "", 1)
	grant(second, "", 1)
	second.Ports = append(second.Ports, first.Ports...)
	grant(second, clusterv1.ReasonPortInUse, 1)
	grant(second, clusterv1.ReasonPortInUse, 1)
	if woken[second.Ref] != 0 {
		t.Errorf("woken %d times without news", woken[second.Ref])
	}
	if err := k.Release(t.Context(), first.Ref); err != nil {
		t.Fatal(err)
	}
	if woken[second.Ref] != 1 {
		t.Errorf("woken %d times by a port that was given up", woken[second.Ref])
	}
	grant(second, "", 2)
}

func TestLateNewsOfTheDead(t *testing.T) {
	s := newStore(1, 0)
	k := newKeeper(t, s, ignore, "192.0.2.0/32")
	if _, err := k.Grant(t.Context(), needsOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := k.Release(t.Context(), needsOf(1).Ref); err != nil {
		t.Fatal(err)
	}
	a, _ := k.Get("192.0.2.0")
	late := a.Object.DeepCopy()
	if err := k.Free(t.Context(), a.Object); err != nil {
		t.Fatal(err)
	}
	k.Observe(late)
	if _, ok := k.Get("192.0.2.0"); ok {
		t.Error("it is back")
	}
	if g, err := k.Grant(t.Context(), needsOf(2)); err != nil || len(g.Held) == 0 {
		t.Errorf("%+v, %v", g, err)
	}
	k.Forget(late) // of the former life
	if _, ok := k.Get("192.0.2.0"); !ok {
		t.Error("the present one is lost with the former")
	}
}

// A LoadBalancer whose port of hosts was granted before a host was known has it once, of the family that the hosts turn out to have.
func TestPortsOfHostsMoveOnce(t *testing.T) {
	s := newStore(1, 0)
	k := newKeeper(t, s, ignore)
	ports, err := ipam.ParsePortRange("20000-20009")
	if err != nil {
		t.Fatal(err)
	}
	k.SetPools([]ipam.Pool{{Name: "public", ByPort: true, Share: ipam.ShareAny, PerTenant: ipam.Unbounded, Hosts: "edge", HostPorts: ports}})
	n := needsOf(1)
	n.Ports[0].Number = 20001
	grant := func(want string) {
		t.Helper()
		g, err := k.Grant(t.Context(), n)
		if err != nil || len(g.Held) != 1 || g.Held[0].Name != want || g.Reason != "" {
			t.Fatalf("%+v, %v; want %s", g, err, want)
		}
	}
	grant("hosts-edge.ipv4.tcp.20001")
	k.SetHosts(map[string][]netip.Addr{"edge": {netip.MustParseAddr("2001:db8::20")}}, nil)
	for range 2 {
		grant("hosts-edge.ipv6.tcp.20001")
		if a, ok := k.Get("hosts-edge.ipv4.tcp.20001"); !ok || a.Object.Spec.Phase != v1alpha1.AddressReleasing {
			t.Errorf("%+v", a)
		}
	}
	for _, a := range k.Releasing("edge") {
		if err := k.Free(t.Context(), a.Object); err != nil {
			t.Fatal(err)
		}
	}
	grant("hosts-edge.ipv6.tcp.20001")
	if s.version != 4 || len(s.objects) != 1 {
		t.Errorf("%d addresses by %d writes", len(s.objects), s.version)
	}
}
