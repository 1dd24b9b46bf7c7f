package ipam

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func mustRange(t testing.TB, s string) Range {
	t.Helper()
	r, err := ParseRange(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pool(t testing.TB, name string, age int, ranges ...string) Pool {
	t.Helper()
	p := Pool{Name: name, Created: time.Unix(int64(age), 0), Share: ShareNamespace, PerTenant: Unbounded, Requestable: true}
	for _, s := range ranges {
		p.Ranges = append(p.Ranges, mustRange(t, s))
	}
	return p
}

func needs(namespace, name string, ports ...int32) Needs {
	n := Needs{
		Ref: Ref{namespace, name}, Owner: Owner{Namespace: namespace, Tenant: namespace, Quota: NoQuota},
		Pools: []string{"public"}, ProxyPool: "edge",
	}
	for _, p := range ports {
		n.Ports = append(n.Ports, Port{"TCP", p})
	}
	return n
}

// wait is no action.
const wait Action = ""

// decided is a decision about one address.
type decided struct {
	Step
	Surplus         []Entry
	Reason, Message string
}

func decide(l *Ledger, n Needs) decided {
	d := l.Decide(n, nil)
	out := decided{Surplus: d.Surplus, Reason: d.Reason, Message: d.Message}
	if len(d.Steps) > 0 {
		out.Step = d.Steps[0]
	}
	return out
}

// do carries a decision out.
func do(l *Ledger, d decided) decided {
	if d.Action == Create || d.Action == Change {
		l.Set(d.Entry)
		for _, e := range d.Surplus {
			giveUp(l, e, d.Entry)
		}
	}
	return d
}

func giveUp(l *Ledger, e, of Entry) {
	for _, h := range of.Holders {
		if _, ok := e.Holder(h.Ref); !ok {
			continue
		}
		if len(e.Holders) > 1 {
			e = e.Without(h.Ref)
		} else {
			e.Phase = Releasing
		}
		l.Set(e)
	}
}

func TestRanges(t *testing.T) {
	for s, want := range map[string]struct {
		text string
		size int64
	}{
		"192.0.2.0/30":            {"192.0.2.0-192.0.2.3", 4},
		"192.0.2.129/26":          {"192.0.2.128-192.0.2.191", 64},
		"192.0.2.8-192.0.2.10":    {"192.0.2.8-192.0.2.10", 3},
		"192.0.2.7/32":            {"192.0.2.7", 1},
		"fd00::/126":              {"fd00::-fd00::3", 4},
		"fd00::/16":               {"fd00::-fd00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1<<63 - 1},
		"0.0.0.0-255.255.255.255": {"0.0.0.0-255.255.255.255", 1 << 32},
	} {
		r := mustRange(t, s)
		if r.String() != want.text || r.Size() != want.size {
			t.Errorf("%s: %s of %d, want %s of %d", s, r, r.Size(), want.text, want.size)
		}
	}
	for _, s := range []string{"", "192.0.2.9-192.0.2.8", "192.0.2.1-fd00::1", "192.0.2.0/33", "a-b", "fe80::1%eth0-fe80::2%eth0"} {
		if r, err := ParseRange(s); err == nil {
			t.Errorf("%q is taken for %s", s, r)
		}
	}
}

func TestAddressNames(t *testing.T) {
	for a, want := range map[string]string{"10.0.0.7": "10.0.0.7", "fd00::7": "fd00-0-0-0-0-0-0-7", "::ffff:10.0.0.7": "10.0.0.7"} {
		if got := AddressName(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %s, want %s", a, got, want)
		}
	}
}

func TestOverlapStaysWithTheOlderPool(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "young", 2, "192.0.2.0/29"), pool(t, "public", 1, "192.0.2.2-192.0.2.3", "192.0.2.3-192.0.2.4")})
	if c := l.CountsOf("young"); c.Free != 5 || !slices.Equal(c.Overlaps, []string{"public"}) {
		t.Errorf("young: %+v", c)
	}
	if c := l.CountsOf("public"); c.Free != 3 || len(c.Overlaps) != 0 {
		t.Errorf("public: %+v", c)
	}
	n := needs("a", "x", 80)
	n.Pools = []string{"young"}
	n.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.3")}
	if d := decide(l, n); d.Reason != clusterv1.ReasonAddressNotInPool {
		t.Errorf("an address of the older pool: %+v", d)
	}
}

func TestFreedAddressIsFoundWithoutAScan(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "10.0.0.0/8")})
	for i := range 20000 {
		if d := do(l, decide(l, needs("a", fmt.Sprint(i), 80))); d.Action != Create {
			t.Fatalf("%d: %+v", i, d)
		}
	}
	looks := 0
	a := l.pools["public"].v4
	held := func(x netip.Addr) bool { looks++; return l.isHeld(x) }
	for range 1000 {
		l.Delete("10.0.0.5")
		got, ok := a.choose(held)
		if !ok || got.String() != "10.0.0.5" {
			t.Fatalf("chose %s", got)
		}
		l.Set(Entry{Name: "10.0.0.5", Address: got, Pool: "public", Phase: Granted})
		if got, _ = a.choose(held); got.String() != "10.0.78.32" {
			t.Fatalf("chose %s", got)
		}
	}
	if looks > 10000 {
		t.Errorf("%d looks for 2000 choices among 20000 held addresses", looks)
	}
}

func TestWishes(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("192.0.2.2")}
	wish := func(namespace, name string, ports ...int32) Needs {
		n := needs(namespace, name, ports...)
		n.Wanted = want
		return n
	}
	for name, c := range map[string]struct {
		change func(*Pool)
		before []Needs
		needs  Needs
		reason string
	}{
		"free": {needs: wish("a", "x", 80)},
		"not in the pool": {needs: func() Needs {
			n := wish("a", "x", 80)
			n.Wanted = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
			return n
		}(), reason: clusterv1.ReasonAddressNotInPool},
		"second wish": {needs: func() Needs {
			n := wish("a", "x", 80)
			n.Wanted = append([]netip.Addr{netip.MustParseAddr("198.51.100.1")}, want...)
			return n
		}()},
		"not requestable":              {change: func(p *Pool) { p.Requestable = false }, needs: wish("a", "x", 80), reason: clusterv1.ReasonAddressNotRequestable},
		"not requestable but restored": {change: func(p *Pool) { p.Requestable, p.Restoring = false, true }, needs: wish("a", "x", 80)},
		"the operator's":               {change: func(p *Pool) { p.Requestable, p.Namespaces = false, labels.Everything() }, needs: func() Needs { n := wish("a", "x", 80); n.Owner.Tenant = ""; return n }()},
		"shared within the namespace":  {before: []Needs{wish("a", "y", 443)}, needs: wish("a", "x", 80)},
		"same port":                    {before: []Needs{wish("a", "y", 80)}, needs: wish("a", "x", 80), reason: clusterv1.ReasonPortInUse},
		"another tenant's":             {before: []Needs{wish("b", "y", 443)}, needs: wish("a", "x", 80), reason: clusterv1.ReasonAddressInUse},
		"shared by any":                {change: func(p *Pool) { p.Share = ShareAny }, before: []Needs{wish("b", "y", 443)}, needs: wish("a", "x", 80)},
		"shared by any, same port":     {change: func(p *Pool) { p.Share = ShareAny }, before: []Needs{wish("b", "y", 80)}, needs: wish("a", "x", 80), reason: clusterv1.ReasonPortInUse},
		"not shared":                   {change: func(p *Pool) { p.Share = ShareNone }, before: []Needs{wish("a", "y", 443)}, needs: wish("a", "x", 80), reason: clusterv1.ReasonAddressInUse},
		"other proxies":                {before: []Needs{func() Needs { n := wish("a", "y", 443); n.ProxyPool = "inner"; return n }()}, needs: wish("a", "x", 80), reason: clusterv1.ReasonAddressInUse},
	} {
		t.Run(name, func(t *testing.T) {
			l, p := New(), pool(t, "public", 1, "192.0.2.0/29")
			if c.change != nil {
				c.change(&p)
			}
			l.SetPools([]Pool{p})
			for _, n := range c.before {
				if d := do(l, decide(l, n)); d.Action == wait {
					t.Fatalf("before: %+v", d)
				}
			}
			d := decide(l, c.needs)
			if c.reason == "" && (d.Action == wait || d.Entry.Address != want[0]) || d.Reason != c.reason {
				t.Errorf("%+v, want reason %q", d, c.reason)
			}
			for _, other := range []string{"b", "y"} {
				if c.before != nil && c.before[0].Namespace == "b" && slices.Contains(words(d.Message), other) {
					t.Errorf("%q names another tenant's object", d.Message)
				}
			}
		})
	}
}

func words(s string) []string {
	return slices.DeleteFunc(splitWords(s), func(w string) bool { return w == "" })
}

func splitWords(s string) []string {
	var out []string
	word := ""
	for _, r := range s {
		if r == ' ' || r == '.' || r == ',' || r == ':' || r == '/' {
			out, word = append(out, word), ""
			continue
		}
		word += string(r)
	}
	return append(out, word)
}

func TestReasonsToWait(t *testing.T) {
	admitB := func(p *Pool) { p.Tenants = labels.SelectorFromSet(labels.Set{"tier": "b"}) }
	for name, c := range map[string]struct {
		change func(*Pool)
		needs  func(*Needs)
		reason string
	}{
		"exhausted":         {func(p *Pool) { p.Ranges = nil }, nil, clusterv1.ReasonPoolExhausted},
		"no pools":          {nil, func(n *Needs) { n.Pools = nil }, clusterv1.ReasonPoolNotFound},
		"pool missing":      {nil, func(n *Needs) { n.Pools = []string{"x"} }, clusterv1.ReasonPoolNotFound},
		"pool not allowed":  {admitB, nil, clusterv1.ReasonPoolNotAllowed},
		"namespace unknown": {nil, func(n *Needs) { n.Owner.Tenant = "" }, clusterv1.ReasonNamespaceNotAdmitted},
		"restoring":         {func(p *Pool) { p.Restoring = true }, nil, clusterv1.ReasonPending},
		"per tenant":        {func(p *Pool) { p.PerTenant = 0 }, nil, clusterv1.ReasonQuotaExceeded},
		"quota":             {nil, func(n *Needs) { n.Owner.Quota.Addresses = 0 }, clusterv1.ReasonQuotaExceeded},
		"quota of ports":    {nil, func(n *Needs) { n.Owner.Quota.Ports = 0 }, clusterv1.ReasonQuotaExceeded},
		"unusable":          {func(p *Pool) { p.Unusable = "granularity Port is not supported yet" }, nil, clusterv1.ReasonNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			l, p, n := New(), pool(t, "public", 1, "192.0.2.0/31"), needs("a", "x", 80)
			if c.change != nil {
				c.change(&p)
			}
			if c.needs != nil {
				c.needs(&n)
			}
			l.SetPools([]Pool{p})
			if d := decide(l, n); d.Action != wait || d.Reason != c.reason || d.Message == "" {
				t.Errorf("%+v, want %s", d, c.reason)
			}
		})
	}
}

func TestAnotherWishMovesAnAddress(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
	n := needs("a", "x", 80)
	first := do(l, decide(l, n))
	n.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	moved := do(l, decide(l, n))
	if moved.Action != Create || moved.Entry.Address != n.Wanted[0] || len(moved.Surplus) != 1 || moved.Surplus[0].Name != first.Entry.Name {
		t.Fatalf("%+v", moved)
	}
	if e, _ := l.Get(first.Entry.Name); e.Phase != Releasing {
		t.Errorf("the former address is %s", e.Phase)
	}
	do(l, decide(l, needs("b", "y", 80))) // the lowest that is free: not the one being released
	n.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	if d := decide(l, n); d.Action != Keep || d.Reason != clusterv1.ReasonAddressInUse || d.Entry.Name != moved.Entry.Name {
		t.Errorf("a wish that can't be had: %+v", d)
	}
}

func TestAPortThatATenantGaveUpComesOnceProxiesHaveAppliedThat(t *testing.T) {
	p := pool(t, "public", 1, "192.0.2.0/32")
	p.Share = ShareAny
	wanted := netip.MustParseAddr("192.0.2.0")
	settled := func(yes bool) func(Entry) bool { return func(Entry) bool { return yes } }
	for name, before := range map[string]Phase{"held": Granted, "being released": Releasing} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetPools([]Pool{p})
			// Another tenant had port 443, and the entry says no more of that.
			l.Set(Entry{
				Name: "192.0.2.0", Address: wanted, Pool: "public", ProxyPool: "edge", Phase: before, Created: time.Unix(1, 0),
				Holders: []Holder{{Ref{"a", "x"}, []Port{{"TCP", 80}}}},
			})
			n := needs("a", "x", 80, 443)
			for _, yes := range []bool{false, true} {
				d := l.Decide(n, settled(yes))
				if len(d.Steps) != 1 {
					t.Fatalf("settled %v: %+v", yes, d)
				}
				h, _ := d.Steps[0].Entry.Holder(n.Ref)
				if want := map[bool]int{false: 1, true: 2}[yes]; len(h.Ports) != want {
					t.Errorf("settled %v: it gets %v", yes, h.Ports)
				}
			}
		})
	}
}

func TestAHolderGetsThePortsThatNobodyElseHas(t *testing.T) {
	for name, c := range map[string]struct {
		quota  int
		ports  []int32
		want   string
		reason string
	}{
		"all free":            {Unbounded, []int32{80, 8080}, "TCP/80 TCP/8080", ""},
		"one taken":           {Unbounded, []int32{80, 443, 8080}, "TCP/80 TCP/8080", clusterv1.ReasonPortInUse},
		"all taken":           {Unbounded, []int32{443}, "", clusterv1.ReasonPortInUse},
		"no quota":            {2, []int32{80, 8080}, "TCP/80", clusterv1.ReasonQuotaExceeded},
		"one taken, no quota": {2, []int32{80, 443, 8080}, "TCP/80", clusterv1.ReasonQuotaExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
			do(l, decide(l, needs("a", "x", 80)))
			other := needs("a", "y", 443)
			other.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.0")}
			do(l, decide(l, other))
			n := needs("a", "x", c.ports...)
			n.Owner.Quota.Ports = c.quota
			d := do(l, decide(l, n))
			h, _ := d.Entry.Holder(n.Ref)
			var got []string
			for _, p := range h.Ports {
				got = append(got, p.String())
			}
			if text := strings.Join(got, " "); text != c.want || d.Reason != c.reason {
				t.Errorf("got %q and reason %q (%s), want %q and %q", text, d.Reason, d.Message, c.want, c.reason)
			}
			if again := decide(l, n); again.Action != Keep || again.Reason != c.reason {
				t.Errorf("decided again, it is %+v", again)
			}
		})
	}
}

// TestLedgerKeepsItsPromises drives a ledger with random events and checks what must always hold.
func TestLedgerKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		share := rapid.SampledFrom([]Share{ShareNone, ShareNamespace, ShareAny}).Draw(t, "share")
		p := Pool{Name: "public", Created: time.Unix(1, 0), Share: share, PerTenant: rapid.IntRange(-1, 3).Draw(t, "perTenant"), Requestable: true, Ranges: []Range{mustRangeRapid("192.0.2.0/29"), mustRangeRapid("192.0.2.20-192.0.2.21")}}
		l.SetPools([]Pool{p})
		quota := Quota{rapid.IntRange(-1, 3).Draw(t, "lbs"), rapid.IntRange(-1, 3).Draw(t, "addresses"), rapid.IntRange(-1, 4).Draw(t, "ports")}
		granted := map[Ref]netip.Addr{}
		draw := func() Needs {
			n := needs(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"))
			n.Owner.Quota = quota
			n.Ports = []Port{{"TCP", rapid.Int32Range(80, 82).Draw(t, "port")}}
			if rapid.Bool().Draw(t, "second port") {
				n.Ports = append(n.Ports, Port{"TCP", 443})
			}
			if rapid.IntRange(0, 2).Draw(t, "wish") == 0 {
				n.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.1").Next()}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"grant": func(*rapid.T) {
				n := draw()
				before, had := granted[n.Ref]
				usage := l.UsageOf(n.Namespace)
				d := do(l, decide(l, n))
				if d.Action == wait {
					if had {
						t.Fatalf("%s lost %s: %+v", n.Ref, before, d)
					}
					return
				}
				if had && d.Entry.Address != before && !slices.Contains(n.Wanted, d.Entry.Address) {
					t.Fatalf("%s moved from %s to %s", n.Ref, before, d.Entry.Address)
				}
				granted[n.Ref] = d.Entry.Address
				after := l.UsageOf(n.Namespace)
				for _, b := range []struct {
					what           string
					bound, was, is int
				}{
					{"loadBalancers", quota.LoadBalancers, usage.LoadBalancers, after.LoadBalancers}, {"addresses", quota.Addresses, usage.Addresses, after.Addresses},
					{"ports", quota.Ports, usage.Ports, after.Ports}, {"perTenant", p.PerTenant, usage.PerPool["public"], after.PerPool["public"]},
				} {
					if b.bound != Unbounded && b.is > b.bound && b.is > b.was {
						t.Fatalf("%s of %s: %d of %d", b.what, n.Namespace, b.is, b.bound)
					}
				}
			},
			"give up": func(*rapid.T) {
				n := draw()
				for _, e := range l.HeldBy(n.Ref) {
					if e.Phase == Granted {
						giveUp(l, e, Entry{Holders: []Holder{{Ref: n.Ref}}})
					}
				}
				delete(granted, n.Ref)
			},
			"prove": func(*rapid.T) {
				for _, e := range l.All() {
					if e.Phase == Releasing && rapid.Bool().Draw(t, "gone") {
						l.Delete(e.Name)
					}
				}
			},
			"": func(*rapid.T) { checkLedger(t, l, granted, share) },
		})
	})
}

func mustRangeRapid(s string) Range {
	r, err := ParseRange(s)
	if err != nil {
		panic(err)
	}
	return r
}

func checkLedger(t *rapid.T, l *Ledger, granted map[Ref]netip.Addr, share Share) {
	type socket struct {
		a netip.Addr
		p Port
	}
	sockets := map[socket]Ref{}
	var held, releasing int64
	for _, e := range l.All() {
		if e.Phase == Releasing {
			releasing++
			if len(e.Holders) != 1 {
				t.Fatalf("%s is being released by %d", e.Name, len(e.Holders))
			}
			continue
		}
		held++
		for _, h := range e.Holders {
			if granted[h.Ref] != e.Address {
				t.Fatalf("%s is held by %s, which holds %s", e.Name, h.Ref, granted[h.Ref])
			}
			if share == ShareNone && len(e.Holders) > 1 || share == ShareNamespace && h.Namespace != e.Holders[0].Namespace {
				t.Fatalf("%s is shared: %v", e.Name, e.Holders)
			}
			for _, p := range h.Ports {
				if other, taken := sockets[socket{e.Address, p}]; taken {
					t.Fatalf("%s %s is held by %s and %s", e.Address, p, other, h.Ref)
				}
				sockets[socket{e.Address, p}] = h.Ref
			}
		}
	}
	if c := l.CountsOf("public"); c.Granted != held || c.Releasing != releasing || c.Free != 10-held-releasing {
		t.Fatalf("counted %+v, there are %d granted and %d releasing", c, held, releasing)
	}
	rebuilt := New()
	rebuilt.SetPools([]Pool{l.pools["public"].Pool})
	entries := l.All()
	rand.New(rand.NewSource(int64(len(entries)))).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	for _, e := range entries {
		rebuilt.Set(e)
	}
	for _, n := range []Needs{needs("a", "x", 80), needs("b", "new", 80, 443)} {
		one, two := decide(l, n), decide(rebuilt, n)
		if one.Action != two.Action || !one.Entry.Equal(two.Entry) || one.Reason != two.Reason || one.Message != two.Message {
			t.Fatalf("two ledgers of the same entries say %+v and %+v", one, two)
		}
		if one.Action == Create {
			if e, ok := l.At(one.Entry.Address); ok {
				t.Fatalf("grants %s anew, which is %s", e.Name, e.Phase)
			}
		}
	}
	for _, ns := range []string{"a", "b"} {
		a, b := l.UsageOf(ns), rebuilt.UsageOf(ns)
		if a.LoadBalancers != b.LoadBalancers || a.Addresses != b.Addresses || a.Ports != b.Ports || a.Releasing != b.Releasing {
			t.Fatalf("%s: counted step by step %+v, at once %+v", ns, a, b)
		}
	}
}
