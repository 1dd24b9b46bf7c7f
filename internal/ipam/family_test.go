package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"pgregory.net/rapid"
)

// of asks for families; required as its policy says.
func of(required bool, families ...Family) func(*Needs) {
	return func(n *Needs) { n.Families, n.Required = families, required }
}

func carryOut(l *Ledger, n Needs) Decision {
	d := l.Decide(n, nil)
	for _, s := range d.Steps {
		l.Set(s.Entry)
	}
	for _, e := range d.Surplus {
		giveUp(l, e, Entry{Holders: []Holder{{Ref: n.Ref}}})
	}
	return d
}

func addressesOf(d Decision) string {
	var out []string
	for _, s := range d.Steps {
		out = append(out, s.Entry.Address.String())
	}
	return strings.Join(out, " ")
}

func TestFamilies(t *testing.T) {
	const v4, v6 = "192.0.2.0/31", "fd00::/126"
	for name, c := range map[string]struct {
		pools  [][]string // ranges of public, then of second
		needs  func(*Needs)
		quota  int
		want   string
		reason string
		says   string
	}{
		"either, IPv4 first":               {pools: [][]string{{v6, v4}}, want: "192.0.2.0"},
		"either, IPv6 only":                {pools: [][]string{{v6}}, want: "fd00::"},
		"IPv6":                             {pools: [][]string{{v4, v6}}, needs: of(false, IPv6), want: "fd00::"},
		"IPv6, in the second pool":         {pools: [][]string{{v4}, {v6}}, needs: of(false, IPv6), want: "fd00::"},
		"IPv6, in no pool":                 {pools: [][]string{{v4}}, needs: of(false, IPv6), reason: clusterv1.ReasonFamilyNotInPool, says: "pool public has no IPv6"},
		"IPv6, in neither pool":            {pools: [][]string{{v4}, {"198.51.100.0/24"}}, needs: of(false, IPv6), reason: clusterv1.ReasonFamilyNotInPool, says: "public, second has IPv6"},
		"both preferred":                   {pools: [][]string{{v4, v6}}, needs: of(false, IPv6, IPv4), want: "fd00:: 192.0.2.0"},
		"both preferred, one in no pool":   {pools: [][]string{{v4}}, needs: of(false, IPv6, IPv4), want: "192.0.2.0"},
		"both preferred, no quota for two": {pools: [][]string{{v4, v6}}, needs: of(false, IPv4, IPv6), quota: 1, want: "192.0.2.0", reason: clusterv1.ReasonQuotaExceeded},
		"both required":                    {pools: [][]string{{v4}, {v6}}, needs: of(true, IPv4, IPv6), want: "192.0.2.0 fd00::"},
		"both required, one in no pool":    {pools: [][]string{{v4}}, needs: of(true, IPv4, IPv6), reason: clusterv1.ReasonFamilyNotInPool, says: "public has no IPv6"},
		"both required, no quota for two":  {pools: [][]string{{v4, v6}}, needs: of(true, IPv4, IPv6), quota: 1, reason: clusterv1.ReasonQuotaExceeded, says: "needs 2 more"},
		"a wish of another family": {pools: [][]string{{v4, v6}}, needs: func(n *Needs) {
			n.Families, n.Wanted = []Family{IPv4}, []netip.Addr{netip.MustParseAddr("fd00::1")}
		}, reason: clusterv1.ReasonInvalid, says: "fd00::1 is of family IPv6"},
		"a wish of one family": {pools: [][]string{{v4, v6}}, needs: func(n *Needs) {
			n.Families, n.Wanted = []Family{IPv4, IPv6}, []netip.Addr{netip.MustParseAddr("fd00::1")}
		}, want: "192.0.2.0 fd00::1"},
	} {
		t.Run(name, func(t *testing.T) {
			l, n := New(), needs("a", "x", 80)
			var pools []Pool
			n.Pools = nil
			for i, ranges := range c.pools {
				n.Pools = append(n.Pools, []string{"public", "second"}[i])
				pools = append(pools, pool(t, n.Pools[i], i, ranges...))
			}
			l.SetPools(pools)
			if c.needs != nil {
				c.needs(&n)
			}
			if c.quota > 0 {
				n.Owner.Quota.Addresses = c.quota
			}
			d := carryOut(l, n)
			if got := addressesOf(d); got != c.want || d.Reason != c.reason || !strings.Contains(d.Message, c.says) {
				t.Errorf("got %q, %s %q, want %q, %s", got, d.Reason, d.Message, c.want, c.reason)
			}
			if again := l.Decide(n, nil); c.want != "" && (!again.Keeps() || addressesOf(again) != c.want || again.Reason != c.reason) {
				t.Errorf("decided again, it is %+v", again)
			}
		})
	}
}

// TestBothOrNone: who requires both families holds none while one is missing, so that two never wait for each other.
func TestBothOrNone(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/31", "fd00::/128")})
	both := func(name string) Needs {
		n := needs("a", name, 80)
		of(true, IPv4, IPv6)(&n)
		return n
	}
	if d := carryOut(l, both("first")); addressesOf(d) != "192.0.2.0 fd00::" {
		t.Fatalf("%+v", d)
	}
	d := carryOut(l, both("second"))
	if !d.Waits() || d.Reason != clusterv1.ReasonPoolExhausted || !strings.Contains(d.Message, "pool public has no free IPv6 address") {
		t.Errorf("%+v", d)
	}
	if c := l.CountsOf("public"); c.Granted != 2 {
		t.Errorf("%d are granted", c.Granted)
	}
	one := needs("a", "third", 80)
	of(false, IPv4)(&one)
	carryOut(l, one)
	of(true, IPv4, IPv6)(&one)
	if d := carryOut(l, one); addressesOf(d) != "192.0.2.1" || !d.Short || d.Reason != clusterv1.ReasonPoolExhausted || !strings.Contains(d.Message, "keeps 192.0.2.1") {
		t.Errorf("what it has is kept meanwhile: %+v", d)
	}
}

func TestFamiliesChange(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/31", "fd00::/126")})
	n := needs("a", "x", 80, 443)
	for _, c := range []struct {
		change      func(*Needs)
		want, given string
	}{
		{of(false, IPv4), "192.0.2.0", ""},
		{of(true, IPv4, IPv6), "192.0.2.0 fd00::", ""},
		{of(false, IPv6), "fd00::", "192.0.2.0"},
		{of(false, IPv6, IPv4), "fd00:: 192.0.2.0", ""}, // it returns at once
		{of(false, AnyFamily), "fd00::", "192.0.2.0"},
	} {
		c.change(&n)
		if n.Families[0] == AnyFamily {
			n.Families, n.Wanted = nil, []netip.Addr{netip.MustParseAddr("fd00::")}
		}
		d := carryOut(l, n)
		var given []string
		for _, e := range d.Surplus {
			given = append(given, e.Address.String())
		}
		if addressesOf(d) != c.want || strings.Join(given, " ") != c.given || d.Reason != "" {
			t.Errorf("%v: %s, gave up %s, %s %s; want %s and %s", n.Families, addressesOf(d), given, d.Reason, d.Message, c.want, c.given)
		}
		if u := l.UsageOf("a"); u.LoadBalancers != 1 || u.Ports != 2 {
			t.Errorf("%v: counted as %+v", n.Families, u)
		}
	}
}

func TestSharedAddressWaitsUntilProxiesHaveSettled(t *testing.T) {
	l, p := New(), pool(t, "public", 1, "192.0.2.0/31")
	p.Share = ShareAny
	l.SetPools([]Pool{p})
	holder, joins := needs("a", "x", 80), needs("b", "y", 443)
	joins.Ports = append(joins.Ports, Port{"UDP", 80})
	carryOut(l, holder)
	joins.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.0")}
	if d := l.Decide(joins, func(Entry) bool { return false }); !d.Waits() || d.Reason != clusterv1.ReasonPending {
		t.Errorf("%+v", d)
	}
	own := joins
	own.Wanted = nil
	carryOut(l, own)
	if d := l.Decide(joins, func(Entry) bool { return false }); !d.Keeps() || addressesOf(d) != "192.0.2.1" || d.Reason != clusterv1.ReasonPending {
		t.Errorf("what it has is kept meanwhile: %+v", d)
	}
	d := carryOut(l, joins)
	if addressesOf(d) != "192.0.2.0" || len(d.Surplus) != 1 {
		t.Fatalf("%+v", d)
	}
	e, _ := l.Get("192.0.2.0")
	got := ""
	for _, h := range e.Holders {
		got += fmt.Sprint(h.Ref, " ", h.Ports, " ")
	}
	if got != "a/x [TCP/80] b/y [UDP/80 TCP/443] " {
		t.Errorf("holders %s", got)
	}
}

// TestDualStackKeepsItsPromises: whatever LoadBalancers ask for and give up, of each family one holds at most
// one address, of its families only, all of them where they are required, and the sums are right.
func TestDualStackKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		p := Pool{Name: "public", Share: ShareNamespace, PerTenant: rapid.IntRange(-1, 5).Draw(t, "perTenant"), Requestable: true,
			Ranges: []Range{mustRangeRapid("192.0.2.0/30"), mustRangeRapid("fd00::/127")}}
		l.SetPools([]Pool{p})
		quota := Quota{rapid.IntRange(-1, 3).Draw(t, "lbs"), rapid.IntRange(-1, 5).Draw(t, "addresses"), rapid.IntRange(-1, 4).Draw(t, "ports")}
		choices := []func(*Needs){of(false, IPv4), of(false, IPv6), of(false, IPv4, IPv6), of(true, IPv6, IPv4), of(false)}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(*rapid.T) {
				n := needs(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"))
				n.Owner.Quota = quota
				n.Ports = []Port{{rapid.SampledFrom([]string{"TCP", "UDP"}).Draw(t, "protocol"), rapid.Int32Range(80, 82).Draw(t, "port")}}
				choices[rapid.IntRange(0, len(choices)-1).Draw(t, "families")](&n)
				before, was := len(l.HeldBy(n.Ref)), l.UsageOf(n.Namespace)
				d := carryOut(l, n)
				if n.Required && !d.Short && len(d.Steps) == 1 || d.Waits() && before > len(l.HeldBy(n.Ref)) {
					t.Fatalf("required %t of %v: %+v", n.Required, n.Families, d)
				}
				seen := map[Family]bool{}
				for _, s := range d.Steps {
					f := FamilyOf(s.Entry.Address)
					if seen[f] || len(n.Families) > 0 && !slices.Contains(n.Families, f) && !d.Short {
						// A family that isn't asked for any more stays only until the other is there.
						if d.Reason == "" {
							t.Fatalf("%v: %+v", n.Families, d)
						}
					}
					seen[f] = true
				}
				if u := l.UsageOf(n.Namespace); quota.Addresses >= 0 && u.Addresses > max(quota.Addresses, was.Addresses) ||
					quota.LoadBalancers >= 0 && u.LoadBalancers > max(quota.LoadBalancers, was.LoadBalancers) ||
					p.PerTenant >= 0 && u.PerPool["public"] > max(p.PerTenant, was.PerPool["public"]) {
					t.Fatalf("%+v of %+v and %d", u, quota, p.PerTenant)
				}
			},
			"give up": func(*rapid.T) {
				all := l.All()
				if len(all) == 0 {
					return
				}
				e := all[rapid.IntRange(0, len(all)-1).Draw(t, "entry")]
				if e.Phase == Releasing {
					l.Delete(e.Name)
					return
				}
				giveUp(l, e, Entry{Holders: e.Holders[:1]})
			},
			"": func(*rapid.T) {
				rebuilt := New()
				rebuilt.SetPools([]Pool{p})
				for _, e := range l.All() {
					rebuilt.Set(e)
				}
				for _, ns := range []string{"a", "b"} {
					a, b := l.UsageOf(ns), rebuilt.UsageOf(ns)
					if a.LoadBalancers != b.LoadBalancers || a.Addresses != b.Addresses || a.Ports != b.Ports || a.Releasing != b.Releasing {
						t.Fatalf("%s: counted step by step %+v, at once %+v", ns, a, b)
					}
				}
			},
		})
	})
}
