package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// Whoever waits for a frozen pool is told once, however many proxies come and go meanwhile.
func TestWaitersAreNotToldWhichProxiesAreFrozen(t *testing.T) {
	woken := 0
	k := newKeeper(t, newStore(1, 0), func(ipam.Ref) { woken++ }, "192.0.2.0/32")
	var trouble proof.Trouble
	k.Trouble, k.PoolsOf = func() *proof.Trouble { return &trouble }, func(string) []string { return []string{"public"} }
	frozen := func(names ...string) {
		trouble = proof.Trouble{}
		for i, name := range names {
			trouble.Frozen = append(trouble.Frozen, &proof.Proxy{Name: name, Pool: "edge", Live: i%2 == 0, HubChanged: v1alpha1.ReasonHubRestored})
		}
		k.RetryUnsettled()
	}
	frozen("p")
	if g, err := k.Grant(t.Context(), needsOf(1)); err != nil || g.Reason != clusterv1.ReasonHubChanged || g.Message != proof.FrozenWait {
		t.Fatalf("%+v, %v", g, err)
	}
	woken = 0
	if frozen("p", "q"); woken != 0 {
		t.Errorf("woken %d times by one more", woken)
	}
	if frozen("q"); woken != 0 {
		t.Errorf("woken %d times by one less", woken)
	}
	if frozen(); woken != 1 || len(k.HeldBy(needsOf(1).Ref)) != 1 {
		t.Errorf("woken %d times when all have thawed", woken)
	}
}

// In an empty hub a wish may be for what is served for somebody else: no proxy has said so yet.
func TestAPoolThatIsRestoredGrantsNoWishBeforeAProxyHasSpoken(t *testing.T) {
	woken := 0
	k := newKeeper(t, newStore(1, 0), func(ipam.Ref) { woken++ }, "192.0.2.0/31")
	pool := func(restoring bool) {
		first := netip.MustParseAddr("192.0.2.0")
		k.SetPools([]ipam.Pool{{Name: "public", Ranges: []ipam.Range{{First: first, Last: first.Next()}}, PerTenant: ipam.Unbounded, Requestable: true, Restoring: restoring}})
	}
	trouble := proof.Trouble{Mute: true}
	k.Trouble, k.PoolsOf = func() *proof.Trouble { return &trouble }, func(string) []string { return []string{"public"} }
	wish := func(i int, address string) ipam.Needs {
		n := needsOf(i)
		n.Wanted = []netip.Addr{netip.MustParseAddr(address)}
		return n
	}
	if g, err := k.Grant(t.Context(), wish(1, "192.0.2.0")); err != nil || len(g.Addresses()) != 1 {
		t.Fatalf("nothing is restored: %+v, %v", g, err)
	}
	pool(true)
	if g, err := k.Grant(t.Context(), wish(1, "192.0.2.0")); err != nil || len(g.Addresses()) != 1 {
		t.Errorf("what the ledger has stays: %+v, %v", g, err)
	}
	if g, err := k.Grant(t.Context(), wish(2, "192.0.2.1")); err != nil || len(g.Addresses()) != 0 || g.Reason != clusterv1.ReasonPending || g.Message != proof.MuteWait {
		t.Fatalf("no proxy has spoken: %+v, %v", g, err)
	}
	woken = 0
	trouble = proof.Trouble{}
	if k.RetryUnsettled(); woken != 1 {
		t.Errorf("woken %d times when one has", woken)
	}
	if g, err := k.Grant(t.Context(), wish(2, "192.0.2.1")); err != nil || len(g.Addresses()) != 1 {
		t.Errorf("one has spoken: %+v, %v", g, err)
	}
}

// frozenKeeper is one before which proxies are frozen that claim the addresses from 198.51.100.0 on, one each in a namespace.
func frozenKeeper(t *testing.T, claims int) (*Keeper, *proof.Trouble) {
	k := newKeeper(t, newStore(1, 0), ignore, "192.0.2.0/32")
	setRanges(t, k, map[string]string{"public": "192.0.2.0/32", "claimed": "198.51.0.0/16"})
	p := &proof.Proxy{Name: "p", Pool: "edge", Live: true, HubChanged: v1alpha1.ReasonHubRestored, Reports: map[string]*v1alpha1.ProxyReport{}}
	for i := range claims {
		p.Reports[fmt.Sprint("ns", i)] = claimsOf(fmt.Sprintf("198.51.%d.%d", i/256, i%256))
	}
	trouble := &proof.Trouble{Frozen: []*proof.Proxy{p}}
	k.Trouble, k.PoolsOf = func() *proof.Trouble { return trouble }, func(string) []string { return nil }
	return k, trouble
}

func claimsOf(addresses ...string) *v1alpha1.ProxyReport {
	r := &v1alpha1.ProxyReport{}
	for _, a := range addresses {
		r.Serves = append(r.Serves, v1alpha1.ServedAddress{Address: a, LoadBalancer: "web", Ports: []string{"TCP/80"}})
	}
	return r
}

func setRanges(t *testing.T, k *Keeper, pools map[string]string) {
	t.Helper()
	var out []ipam.Pool
	for name, cidr := range pools {
		r, err := ipam.ParseRange(cidr)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ipam.Pool{Name: name, Ranges: []ipam.Range{r}, Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded})
	}
	k.SetPools(out)
}

func TestAGrantDoesNotCostAsMuchAsFrozenProxiesClaim(t *testing.T) {
	cost := func(claims int) float64 {
		k, _ := frozenKeeper(t, claims)
		return testing.AllocsPerRun(10, func() {
			if _, frozen := k.Frozen("claimed"); !frozen {
				t.Fatal("it isn't frozen")
			}
		})
	}
	if few, many := cost(1), cost(2000); many > few {
		t.Errorf("%v allocations with 2000 claims, %v with one", many, few)
	}
}

func TestWhatFrozenProxiesClaimIsKeptUpWith(t *testing.T) {
	k, trouble := frozenKeeper(t, 2)
	is := func(want ...string) {
		t.Helper()
		var got []string
		for _, pool := range []string{"claimed", "other", "public"} {
			if _, frozen := k.Frozen(pool); frozen {
				got = append(got, pool)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("frozen: %v, want %v", got, want)
		}
	}
	is("claimed")
	next := *trouble.Frozen[0]
	next.Reports = map[string]*v1alpha1.ProxyReport{"ns0": next.Reports["ns0"], "ns1": claimsOf("192.0.2.0")}
	trouble.Frozen[0] = &next
	is("claimed", "public")
	setRanges(t, k, map[string]string{"public": "192.0.2.0/32", "other": "198.51.0.0/16"})
	is("other", "public")
	last := next
	last.Reports = map[string]*v1alpha1.ProxyReport{"ns1": next.Reports["ns1"]}
	trouble.Frozen[0] = &last
	is("public")
	trouble.Frozen, trouble.Unseen = nil, []*proof.Proxy{&next}
	is("other", "public")
	if trouble.Unseen = nil; len(k.claimed) != 1 {
		t.Errorf("%d proxies are remembered", len(k.claimed))
	}
	is()
	if len(k.claimed) != 0 {
		t.Errorf("%d proxies are remembered that are in no trouble", len(k.claimed))
	}
}

// What a proxy serves for namespaces that the hub hasn't is claimed for these, by the word of the report that every hub takes.
func TestClaimsOfNamespacesThatAreMissing(t *testing.T) {
	r := &v1alpha1.ProxyReport{ServesMissing: []v1alpha1.MissingServedAddress{{Namespace: "lab", ServedAddress: claimsOf("192.0.2.0").Serves[0]}}}
	p := &proof.Proxy{Name: "p", Pool: "edge", Reports: map[string]*v1alpha1.ProxyReport{"tenant": r}}
	if c := Claims(p); len(c) > 0 {
		t.Errorf("in a tenant's namespace nothing is claimed for others: %+v", c)
	}
	p.Reports = map[string]*v1alpha1.ProxyReport{v1alpha1.SystemNamespace: r}
	c := Claims(p)
	if len(c) != 1 || c[0].Holder.Ref != (ipam.Ref{Namespace: "lab", Name: "web"}) || len(c[0].Holder.Ports) != 1 {
		t.Fatalf("claims %+v", c)
	}
	k := newKeeper(t, newStore(1, 0), ignore, "192.0.2.0/32")
	if _, err := k.Adopt(t.Context(), c[0].What, c, []*proof.Proxy{p}); err != nil {
		t.Fatal(err)
	}
	e := mustGet(k, "192.0.2.0")
	if _, held := e.Holder(c[0].Holder.Ref); !held {
		t.Error("it isn't adopted")
	}
}
