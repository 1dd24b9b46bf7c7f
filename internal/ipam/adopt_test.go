package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var served = netip.MustParseAddr("192.0.2.1")

func claim(proxy, holder string, ports ...int32) Claim {
	c := Claim{Proxy: proxy, ProxyPool: "edge", What: What{Address: served}, Holder: Holder{Ref: Ref{"a", holder}}}
	for _, p := range ports {
		c.Holder.Ports = append(c.Holder.Ports, Port{"TCP", p})
	}
	return c
}

func granted(holder string, phase Phase, ports ...int32) Entry {
	c := claim("", holder, ports...)
	return Entry{Name: served.String(), Address: served, Pool: "public", ProxyPool: "edge", Phase: phase, Holders: []Holder{c.Holder}}
}

// Where the ledger is an older copy, proxies that follow it prove nothing.
func TestNobodyIsStaleWhileAPoolIsRestored(t *testing.T) {
	for _, restoring := range []bool{false, true} {
		l := New()
		p := pool(t, "public", 1, "192.0.2.0/29")
		p.Restoring = restoring
		l.SetPools([]Pool{p})
		l.Set(granted("y", Granted, 80))
		got := l.Adopt(What{Address: served}, []Claim{claim("p", "x", 80)}, Adopters{Against: []string{"u", "v", "z"}, Overruled: func(string) bool { return true }})
		if got.Action != Keep || restoring == (len(got.Stale) > 0) || restoring != slices.Equal(got.Disagree, []string{"p", "u", "v", "z"}) {
			t.Errorf("restoring %v: %+v", restoring, got)
		}
	}
}

func TestWhatRunsIsAdopted(t *testing.T) {
	nobody := Adopters{}
	against := func(overruled bool) Adopters {
		return Adopters{Against: []string{"z"}, Overruled: func(string) bool { return overruled }}
	}
	for name, c := range map[string]struct {
		ledger   []Entry
		claims   []Claim
		who      Adopters
		want     Action
		holders  string
		stale    []string
		disagree []string
	}{
		"nothing is claimed":                        {want: Keep},
		"the ledger lacks it":                       {claims: []Claim{claim("p", "x", 80)}, want: Create, holders: "a/x TCP/80;"},
		"two proxies say the same":                  {claims: []Claim{claim("p", "x", 80), claim("q", "x", 80)}, want: Create, holders: "a/x TCP/80;"},
		"one saw a port more":                       {claims: []Claim{claim("p", "x", 80), claim("q", "x", 80, 81)}, want: Create, holders: "a/x TCP/80 TCP/81;"},
		"two holders share it":                      {claims: []Claim{claim("p", "x", 80), claim("p", "y", 81)}, want: Create, holders: "a/x TCP/80;a/y TCP/81;"},
		"proxies contradict each other":             {claims: []Claim{claim("p", "x", 80), claim("q", "y", 80)}, want: Keep, disagree: []string{"p", "q"}},
		"another has it, who serves nowhere":        {ledger: []Entry{granted("y", Granted, 80)}, claims: []Claim{claim("p", "x", 80)}, want: Change, holders: "a/x TCP/80;"},
		"another has another port of it":            {ledger: []Entry{granted("y", Granted, 81)}, claims: []Claim{claim("p", "x", 80)}, want: Change, holders: "a/x TCP/80;a/y TCP/81;"},
		"it has a port less":                        {ledger: []Entry{granted("x", Granted, 80)}, claims: []Claim{claim("p", "x", 80, 81)}, want: Change, holders: "a/x TCP/80 TCP/81;"},
		"it has it by now":                          {ledger: []Entry{granted("x", Granted, 80, 81)}, claims: []Claim{claim("p", "x", 80)}, want: Keep},
		"it was being released":                     {ledger: []Entry{granted("x", Releasing, 80)}, claims: []Claim{claim("p", "x", 80)}, want: Change, holders: "a/x TCP/80;"},
		"it was being released by another":          {ledger: []Entry{granted("y", Releasing, 81)}, claims: []Claim{claim("p", "x", 80)}, want: Change, holders: "a/x TCP/80;"},
		"it moved":                                  {ledger: []Entry{granted("x", Moved, 80)}, claims: []Claim{claim("p", "x", 80)}, want: Keep},
		"it moved with another":                     {ledger: []Entry{granted("y", Moved, 80)}, claims: []Claim{claim("p", "x", 80)}, want: Keep, disagree: []string{"p"}},
		"another serves as the ledger says":         {ledger: []Entry{granted("y", Granted, 80)}, claims: []Claim{claim("p", "x", 80)}, who: against(true), want: Keep, stale: []string{"p"}},
		"another does, and may be the wrong one":    {ledger: []Entry{granted("y", Granted, 80)}, claims: []Claim{claim("p", "x", 80)}, who: against(false), want: Keep, disagree: []string{"p", "z"}},
		"another does, and there is no contest":     {ledger: []Entry{granted("x", Granted, 80)}, claims: []Claim{claim("p", "x", 80, 81)}, who: against(true), want: Change, holders: "a/x TCP/80 TCP/81;"},
		"another may, and isn't heard of now":       {ledger: []Entry{granted("y", Granted, 80)}, claims: []Claim{claim("p", "x", 80)}, who: Adopters{Behind: []string{"z"}}, want: Keep, disagree: []string{"p", "z"}},
		"another may, and there is no contest":      {ledger: []Entry{granted("x", Granted, 80)}, claims: []Claim{claim("p", "x", 80, 81)}, who: Adopters{Behind: []string{"z"}}, want: Change, holders: "a/x TCP/80 TCP/81;"},
		"another may, and it was being released":    {ledger: []Entry{granted("y", Releasing, 80)}, claims: []Claim{claim("p", "x", 80)}, who: Adopters{Behind: []string{"z"}}, want: Change, holders: "a/x TCP/80;"},
		"the ledger says what another proxy claims": {ledger: []Entry{granted("y", Granted, 80)}, claims: []Claim{claim("p", "x", 80)}, who: Adopters{Earlier: []string{"q"}}, want: Keep, disagree: []string{"p", "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
			for _, e := range c.ledger {
				l.Set(e)
			}
			if c.who.Overruled == nil {
				c.who.Overruled = nobody.Overruled
			}
			got := l.Adopt(What{Address: served}, c.claims, c.who)
			holders := ""
			for _, h := range got.Entry.Holders {
				holders += h.Ref.String()
				for _, p := range h.Ports {
					holders += " " + p.String()
				}
				holders += ";"
			}
			if got.Action != c.want || c.want != Keep && (holders != c.holders || got.Entry.Phase != Granted || got.Entry.Pool != "public") ||
				!slices.Equal(got.Stale, c.stale) || !slices.Equal(got.Disagree, c.disagree) || got.NoPool {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := New().Adopt(What{Address: served}, []Claim{claim("p", "x", 80)}, nobody); !got.NoPool || got.Action != Keep {
		t.Errorf("no pool has it: %+v", got)
	}
}

// An Address names so many ports of a holder and no more. A LoadBalancer whose ports were exchanged since the copy was made
// has those that run, unless others may serve those that the ledger says.
func TestPortsThatWereExchangedReplaceTheOldOnes(t *testing.T) {
	from := func(first, n int32) (out []int32) {
		for i := range n {
			out = append(out, first+i)
		}
		return out
	}
	old, now := from(1000, MaxPorts), from(2000, MaxPorts)
	for name, c := range map[string]struct {
		phase    Phase
		claims   []Claim
		who      Adopters
		ports    []int32 // empty: nothing is written
		disagree []string
	}{
		"all":                                {phase: Granted, claims: []Claim{claim("p", "x", now...)}, ports: now},
		"some":                               {phase: Granted, claims: []Claim{claim("p", "x", now[:3]...)}, ports: now[:3]},
		"each proxy saw some":                {phase: Granted, claims: []Claim{claim("p", "x", now[:60]...), claim("q", "x", now[40:]...)}, ports: now},
		"it was being released":              {phase: Releasing, claims: []Claim{claim("p", "x", now...)}, ports: now},
		"it moved":                           {phase: Moved, claims: []Claim{claim("p", "x", now...)}},
		"proxies saw more than it can name":  {phase: Granted, claims: []Claim{claim("p", "x", now...), claim("q", "x", 80), claim("r", "y", 81)}, disagree: []string{"p", "q"}},
		"another serves the old ones":        {phase: Granted, claims: []Claim{claim("p", "x", now...)}, who: Adopters{Against: []string{"z"}}, disagree: []string{"p", "z"}},
		"another may serve the old ones":     {phase: Granted, claims: []Claim{claim("p", "x", now...)}, who: Adopters{Behind: []string{"z"}}, disagree: []string{"p", "z"}},
		"another's claim made them the ones": {phase: Granted, claims: []Claim{claim("p", "x", now...)}, who: Adopters{Earlier: []string{"q"}}, disagree: []string{"p", "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
			l.Set(granted("x", c.phase, old...))
			c.who.Overruled = func(string) bool { return false }
			got := l.Adopt(What{Address: served}, c.claims, c.who)
			if (got.Action == Change) != (len(c.ports) > 0) || !slices.Equal(got.Disagree, c.disagree) || len(got.Stale) > 0 {
				t.Fatalf("%s, disagree %v, stale %v", got.Action, got.Disagree, got.Stale)
			}
			if got.Action == Keep {
				return
			}
			want := claim("", "x", c.ports...)
			if !slices.EqualFunc(got.Entry.Holders, []Holder{want.Holder}, equalHolders) {
				t.Errorf("%+v", got.Entry.Holders)
			}
			l.Set(got.Entry)
			if again := l.Adopt(What{Address: served}, c.claims, c.who); again.Action != Keep || len(again.Disagree) > 0 {
				t.Errorf("adopted anew: %+v", again)
			}
		})
	}
}

// TestAdoptionEnds: whatever is claimed, no port gets two holders, what was adopted is adopted for good, and every
// claimant that isn't told otherwise has what it claims.
func TestAdoptionEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ports := func() []int32 {
			return rapid.SliceOfNDistinct(rapid.Int32Range(80, 82), 1, 3, rapid.ID).Draw(t, "ports")
		}
		name := rapid.SampledFrom([]string{"x", "y", "z"})
		l := New()
		p := pool(&testing.T{}, "public", 1, "192.0.2.0/29")
		p.Share = rapid.SampledFrom([]Share{ShareNone, ShareNamespace, ShareAny}).Draw(t, "share")
		l.SetPools([]Pool{p})
		if rapid.Bool().Draw(t, "held") {
			l.Set(granted(name.Draw(t, "holder"), rapid.SampledFrom([]Phase{Granted, Releasing, Moved}).Draw(t, "phase"), ports()...))
		}
		var claims []Claim
		for _, proxy := range []string{"p", "q"} {
			for range rapid.IntRange(0, 2).Draw(t, "claims") {
				claims = append(claims, claim(proxy, name.Draw(t, "claimed"), ports()...))
			}
		}
		who := Adopters{Overruled: func(string) bool { return true }}
		if rapid.Bool().Draw(t, "against") {
			who.Against = []string{"c"}
		}
		got := l.Adopt(What{Address: served}, claims, who)
		if got.Action == Keep {
			return
		}
		l.Set(got.Entry)
		for i, a := range got.Entry.Holders {
			for _, b := range got.Entry.Holders[:i] {
				if both := intersect(a.Ports, b.Ports); len(both) > 0 {
					t.Fatalf("%v of %v and %v", both, a.Ref, b.Ref)
				}
			}
		}
		for _, c := range claims {
			if h, _ := got.Entry.Holder(c.Holder.Ref); len(intersect(c.Holder.Ports, h.Ports)) != len(c.Holder.Ports) {
				t.Fatalf("%+v has %+v", c, got.Entry)
			}
		}
		if again := l.Adopt(What{Address: served}, claims, who); again.Action != Keep || len(again.Stale)+len(again.Disagree) > 0 {
			t.Fatalf("adopted anew: %+v", again)
		}
	})
}

// An Address names so many holders and no more. That it can't be adopted therefore is said, for nothing else would tell.
func TestAnAddressThatIsFullIsSaid(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
	e := granted("y", Granted, 1000)
	for i := range MaxHolders - 1 {
		e = e.With(Ref{"a", fmt.Sprint("lb-", i)}, []Port{{"TCP", int32(1001 + i)}})
	}
	l.Set(e)
	got := l.Adopt(What{Address: served}, []Claim{claim("p", "x", 80)}, Adopters{})
	if got.Action != Keep || !got.Full || len(got.Disagree)+len(got.Stale) > 0 {
		t.Errorf("%v, full %v, %v disagree", got.Action, got.Full, got.Disagree)
	}
	l.Set(e.Without(Ref{"a", "lb-0"}))
	if got := l.Adopt(What{Address: served}, []Claim{claim("p", "x", 80)}, Adopters{}); got.Action != Change || got.Full {
		t.Errorf("%v, full %v where one has left", got.Action, got.Full)
	}
}
