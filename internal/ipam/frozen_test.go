package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestWhileFrozenNothingNewIsGranted(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29"), pool(t, "other", 2, "198.51.100.0/29")})
	held := do(l, decide(l, needs("a", "held", 80)))
	going := do(l, decide(l, needs("a", "going", 80)))
	going.Entry.Phase = Releasing
	l.Set(going.Entry)
	l.SetFrozen(map[string]Frozen{"public": {"HubChanged", "why"}})

	more := needs("a", "held", 80, 81)
	wish := needs("b", "wish", 80)
	wish.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
	join := needs("a", "join", 90)
	join.Wanted = []netip.Addr{held.Entry.Address}
	elsewhere := needs("b", "new", 80)
	elsewhere.Pools = []string{"public", "other"}
	for name, c := range map[string]struct {
		n    Needs
		want Action
		says string
	}{
		"a new one waits":                 {needs("b", "new", 80), wait, "HubChanged"},
		"a wish waits":                    {wish, wait, "HubChanged"},
		"one that would join waits":       {join, wait, "HubChanged"},
		"who holds one keeps it":          {needs("a", "held", 80), Keep, ""},
		"and gets no more ports":          {more, Keep, "HubChanged"},
		"what is Releasing may come back": {needs("a", "going", 80), Change, ""},
		"another pool grants":             {elsewhere, Create, ""},
	} {
		if got := decide(l, c.n); got.Action != c.want || got.Reason != c.says {
			t.Errorf("%s: %+v", name, got)
		}
	}
	l.SetFrozen(nil)
	if got := decide(l, needs("b", "new", 80)); got.Action != Create {
		t.Errorf("settled again: %+v", got)
	}
}

func TestWhileFrozenSurplusStays(t *testing.T) {
	l := New()
	l.SetPools([]Pool{pool(t, "public", 1, "192.0.2.0/29")})
	for i, a := range []string{"192.0.2.1", "192.0.2.2"} {
		l.Set(Entry{Name: a, Address: netip.MustParseAddr(a), Pool: "public", ProxyPool: "edge", Phase: Granted, Created: pool(t, "", i+1).Created, Holders: []Holder{{Ref{"a", "x"}, []Port{{"TCP", 80}}}}})
	}
	l.SetFrozen(map[string]Frozen{"public": {"HubChanged", "why"}})
	if d := l.Decide(needs("a", "x", 80), nil); len(d.Surplus) != 0 {
		t.Errorf("given up: %v", d.Surplus)
	}
	l.SetFrozen(nil)
	if d := l.Decide(needs("a", "x", 80), nil); len(d.Surplus) != 1 || d.Surplus[0].Name != "192.0.2.2" {
		t.Errorf("the oldest stays: %v", d.Surplus)
	}
}

// TestFrozenLedgerOnlyKeeps: whatever is asked of frozen pools, no entry gets a holder or a port that it hadn't, and none is given up.
func TestFrozenLedgerOnlyKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		l.SetPools([]Pool{pool(&testing.T{}, "public", 1, "192.0.2.0/30")})
		draw := func() Needs {
			n := needs(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "name")))
			for _, p := range []int32{80, 81, 82} {
				if rapid.Bool().Draw(t, "port") {
					n.Ports = append(n.Ports, Port{"TCP", p})
				}
			}
			if rapid.Bool().Draw(t, "wish") {
				n.Wanted = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(rapid.IntRange(0, 5).Draw(t, "wanted"))})}
			}
			return n
		}
		for range rapid.IntRange(0, 6).Draw(t, "before") {
			do(l, decide(l, draw()))
		}
		l.SetFrozen(map[string]Frozen{"public": {"HubChanged", "why"}})
		for range 8 {
			n := draw()
			before := map[string]Entry{}
			for _, e := range l.All() {
				before[e.Name] = e
			}
			d := l.Decide(n, nil)
			if len(d.Surplus) > 0 {
				t.Fatalf("%v is given up", d.Surplus)
			}
			for _, s := range d.Steps {
				old, had := before[s.Entry.Name]
				holder, held := old.Holder(n.Ref)
				now, _ := s.Entry.Holder(n.Ref)
				if !had || !held || slices.ContainsFunc(now.Ports, func(p Port) bool { return !slices.Contains(holder.Ports, p) }) {
					t.Fatalf("%s got %+v, had %+v", n.Ref, s.Entry, old)
				}
			}
		}
	})
}
