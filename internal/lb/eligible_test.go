package lb

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEligible(t *testing.T) {
	check := Check{Kind: CheckTCP, Port: 80, Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2}
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	bad := func(addrs ...netip.Addr) Health {
		v := Verdicts{}
		for _, x := range addrs {
			v[x] = Unhealthy
		}
		return Health{check: v}
	}
	serving := func(addr netip.Addr, w int) Member { return Member{UID: addr.String(), Address: addr, Weight: w} }
	draining := func(addr netip.Addr) Member {
		return Member{UID: addr.String(), Address: addr, Weight: 1, Draining: true}
	}
	for name, tt := range map[string]struct {
		members []Member
		check   Check
		open    bool
		health  Health
		want    []netip.Addr
	}{
		"all":                                     {[]Member{serving(a, 1), serving(b, 1)}, check, true, nil, []netip.Addr{a, b}},
		"none":                                    {nil, check, true, nil, nil},
		"unhealthy is left out":                   {[]Member{serving(a, 1), serving(b, 1)}, check, true, bad(a), []netip.Addr{b}},
		"all unhealthy, fails open":               {[]Member{serving(a, 1), serving(b, 1)}, check, true, bad(a, b), []netip.Addr{a, b}},
		"all unhealthy, fails closed":             {[]Member{serving(a, 1), serving(b, 1)}, check, false, bad(a, b), nil},
		"draining is left out":                    {[]Member{draining(a), serving(b, 1)}, check, true, nil, []netip.Addr{b}},
		"draining is not opened to":               {[]Member{draining(a), serving(b, 1)}, check, true, bad(b), []netip.Addr{b}},
		"all draining":                            {[]Member{draining(a), draining(b)}, check, true, nil, nil},
		"weight 0 is left out":                    {[]Member{serving(a, 0), serving(b, 1)}, check, true, nil, []netip.Addr{b}},
		"weight 0 is not opened to":               {[]Member{serving(a, 0), serving(b, 1)}, check, true, bad(b), []netip.Addr{b}},
		"all weigh 0":                             {[]Member{serving(a, 0), serving(b, 0)}, check, true, nil, []netip.Addr{a, b}},
		"all that do not drain weigh 0":           {[]Member{serving(a, 0), draining(b)}, check, true, nil, []netip.Addr{a}},
		"no check, nothing is unhealthy":          {[]Member{serving(a, 1)}, Check{Kind: CheckNone}, false, bad(a), []netip.Addr{a}},
		"another check's verdict is not this one": {[]Member{serving(a, 1)}, Check{Kind: CheckTCP, Port: 81}, false, bad(a), []netip.Addr{a}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []netip.Addr
			for _, m := range Eligible(&Group{Members: tt.members}, &Pool{Check: tt.check, FailOpen: tt.open}, tt.health) {
				got = append(got, m.Address)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestEligibleMembersAreNeverDraining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Group{Members: drawMembers(t, 6)}
		p := &Pool{Check: drawCheck(t), FailOpen: rapid.Bool().Draw(t, "open")}
		health := Health{p.Check: {}}
		for _, m := range g.Members {
			health[p.Check][m.Address] = rapid.SampledFrom([]Verdict{Unchecked, Healthy, Unhealthy}).Draw(t, "verdict")
		}
		got := Eligible(g, p, health)
		at := 0
		for _, m := range got {
			if m.Draining {
				t.Fatalf("%v is draining", m)
			}
			i := slices.Index(g.Members[at:], m)
			if i < 0 {
				t.Fatalf("%v is not in order", m)
			}
			at += i + 1
		}
		serving := slices.ContainsFunc(g.Members, func(m Member) bool { return !m.Draining })
		if p.FailOpen && serving && len(got) == 0 {
			t.Fatal("failed closed")
		}
	})
}
