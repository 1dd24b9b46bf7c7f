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

func TestEligibleByZone(t *testing.T) {
	check := Check{Kind: CheckTCP, Port: 80, Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2}
	member := func(n byte, zone string, weight int) Member {
		a := netip.AddrFrom4([4]byte{10, 0, 0, n})
		return Member{UID: a.String(), Address: a, Zone: zone, Weight: weight}
	}
	draining := member(2, "near", 1)
	draining.Draining = true
	for name, tt := range map[string]struct {
		members []Member
		zone    string
		closed  bool
		sick    string // last numbers of the addresses that are Unhealthy
		want    string
	}{
		"no zone":                         {[]Member{member(1, "far", 1), member(2, "near", 1), member(3, "", 1)}, "", false, "", "123"},
		"the zone's alone":                {[]Member{member(1, "far", 1), member(2, "near", 1), member(3, "", 1), member(4, "near", 1)}, "near", false, "", "24"},
		"none in the zone":                {[]Member{member(1, "far", 1), member(3, "", 1)}, "near", false, "", "13"},
		"one in the zone is sick":         {[]Member{member(1, "far", 1), member(2, "near", 1), member(4, "near", 1)}, "near", false, "2", "4"},
		"all in the zone are sick":        {[]Member{member(1, "far", 1), member(2, "near", 1)}, "near", false, "2", "1"},
		"the zone's drains":               {[]Member{member(1, "far", 1), draining}, "near", false, "", "1"},
		"the zone's weighs nothing":       {[]Member{member(1, "far", 1), member(2, "near", 0)}, "near", false, "", "1"},
		"nobody weighs anything":          {[]Member{member(1, "far", 0), member(2, "near", 0)}, "near", false, "", "2"},
		"all are sick, open to all zones": {[]Member{member(1, "far", 1), member(2, "near", 1)}, "near", false, "12", "12"},
		"all are sick, closed":            {[]Member{member(1, "far", 1), member(2, "near", 1)}, "near", true, "12", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := Health{check: {}}
			for _, c := range tt.sick {
				h[check][netip.AddrFrom4([4]byte{10, 0, 0, byte(c - '0')})] = Unhealthy
			}
			got := ""
			for _, m := range Eligible(&Group{Members: tt.members}, &Pool{Check: check, FailOpen: !tt.closed, Zone: tt.zone}, h) {
				got += m.UID[len(m.UID)-1:]
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
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
