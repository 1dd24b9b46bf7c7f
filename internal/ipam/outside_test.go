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
	"pgregory.net/rapid"
)

// TestWhatIsGrantedStaysWhenItsRangeGoes: it is kept with all that its holder may do with it, is counted, and is nobody else's.
func TestWhatIsGrantedStaysWhenItsRangeGoes(t *testing.T) {
	at := netip.MustParseAddr("192.0.2.0")
	wish := func(name string, port int32) Needs {
		n := needs("a", name, port)
		n.Wanted = []netip.Addr{at}
		return n
	}
	for name, byPort := range map[string]bool{"whole": false, "by port": true} {
		t.Run(name, func(t *testing.T) {
			l := New()
			set := func(ranges ...string) {
				p := pool(t, "public", 1, ranges...)
				if p.ByPort = byPort; byPort {
					p.Share = ShareAny
				}
				l.SetPools([]Pool{p})
			}
			outside := func(when string, want int64) {
				t.Helper()
				if c := l.CountsOf("public"); c.Outside != want {
					t.Errorf("%s: %+v, want %d outside", when, c, want)
				}
			}
			set("192.0.2.0/31")
			if d := grantAll(l, wish("x", 80)); addressesOf(d) != at.String() {
				t.Fatalf("%+v", d)
			}
			outside("granted", 0)

			set("192.0.2.1/32")
			outside("its range gone", 1)
			for _, n := range []Needs{needs("a", "x", 80), wish("x", 80)} {
				if d := l.Decide(n, nil); !d.Keeps() || addressesOf(d) != at.String() || d.Reason != "" || len(d.Surplus) > 0 {
					t.Errorf("asked again: %+v", d)
				}
			}
			if d := grantAll(l, needs("a", "x", 80, 443)); d.Waits() || d.Steps[0].Entry.Address != at || d.Reason != "" {
				t.Errorf("with another port: %+v", d)
			}
			if d := grantAll(l, needs("a", "x", 80)); d.Waits() || d.Steps[0].Entry.Address != at {
				t.Errorf("without it: %+v", d)
			}
			if d := l.Decide(wish("y", 443), nil); !d.Waits() || d.Reason != clusterv1.ReasonAddressNotInPool {
				t.Errorf("another one that wants it: %+v", d)
			}
			if d := grantAll(l, needs("a", "z", 80)); addressesOf(d) != "192.0.2.1" {
				t.Errorf("another one: %+v", d)
			}

			leave(l, Ref{"a", "x"})
			outside("being released", map[bool]int64{false: 1, true: 2}[byPort])
			if d := l.Decide(wish("x", 80), nil); !d.Waits() || d.Reason != clusterv1.ReasonAddressNotInPool {
				t.Errorf("made anew: %+v", d)
			}
			set("192.0.2.0/31")
			outside("its range back", 0)
			if d := l.Decide(wish("x", 80), nil); d.Waits() || d.Steps[0].Action != Change || d.Steps[0].Entry.Address != at {
				t.Errorf("its range back: %+v", d)
			}
			set("192.0.2.1/32")
			prove(l)
			outside("released", 0)
			if d := grantAll(l, needs("a", "x", 80)); !byPort && (!d.Waits() || d.Reason != clusterv1.ReasonPoolExhausted) {
				t.Errorf("released: %+v", d)
			}
		})
	}
}

func leave(l *Ledger, r Ref) {
	for _, e := range l.HeldBy(r) {
		if e.Phase == Granted {
			giveUp(l, e, Entry{Holders: []Holder{{Ref: r}}})
		}
	}
}

// prove has all proxies let go of what is being released.
func prove(l *Ledger) {
	for _, e := range l.All() {
		if e.Phase == Releasing {
			l.Delete(e.Name)
		}
	}
}

// TestARangeThatMovesToAnotherPool: who holds one of its addresses keeps it by the pool that it was granted from; nobody joins him by the
// rules of the other, which gives it once it is free.
func TestARangeThatMovesToAnotherPool(t *testing.T) {
	l, at := New(), netip.MustParseAddr("192.0.2.0")
	set := func(public, second string) {
		l.SetPools([]Pool{pool(t, "public", 1, public), pool(t, "second", 2, second)})
	}
	set("192.0.2.0/32", "198.51.100.0/32")
	grantAll(l, needs("a", "x", 80))
	set("203.0.113.0/32", "192.0.2.0/32")
	if p, s := l.CountsOf("public"), l.CountsOf("second"); p.Outside != 1 || p.Granted != 1 || p.Free != 1 || s.Outside != 0 || s.Granted != 0 || s.Free != 0 {
		t.Errorf("public %+v, second %+v", p, s)
	}
	if d := l.Decide(needs("a", "x", 80), nil); !d.Keeps() || addressesOf(d) != at.String() {
		t.Errorf("the holder: %+v", d)
	}
	other := needs("a", "y", 443)
	other.Pools = []string{"second"}
	if d := l.Decide(other, nil); !d.Waits() || d.Reason != clusterv1.ReasonPoolExhausted {
		t.Errorf("another one: %+v", d)
	}
	other.Wanted = []netip.Addr{at}
	if d := l.Decide(other, nil); !d.Waits() || d.Reason != clusterv1.ReasonAddressInUse || !strings.Contains(d.Message, "before its range moved to pool second") {
		t.Errorf("another one that wants to share it: %+v", d)
	}
	leave(l, Ref{"a", "x"})
	prove(l)
	if d := grantAll(l, other); addressesOf(d) != at.String() || d.Steps[0].Entry.Pool != "second" {
		t.Errorf("once it is free: %+v", d)
	}
	if p, s := l.CountsOf("public"), l.CountsOf("second"); p.Granted != 0 || p.Outside != 0 || s.Granted != 1 || s.Outside != 0 {
		t.Errorf("public %+v, second %+v", p, s)
	}
}

// TestPoolsChangeUnderUse draws pools of two ranges that come and go under those who ask, hold and leave. Nobody loses or changes what he
// holds; nothing is granted anew that no pool has; and the sums are those of a ledger that begins with what there is.
func TestPoolsChangeUnderUse(t *testing.T) {
	for name, byPort := range map[string]bool{"whole": false, "by port": true} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { changeUnderUse(t, byPort) }) })
	}
}

func changeUnderUse(t *rapid.T, byPort bool) {
	blocks := []string{"192.0.2.0/31", "192.0.2.2/31", "192.0.2.4/31"}
	draw := func() (pools []Pool) {
		of := map[string][]Range{}
		for _, b := range blocks {
			p := rapid.SampledFrom([]string{"", "public", "second"}).Draw(t, b)
			of[p] = append(of[p], mustRangeRapid(b))
		}
		for i, name := range []string{"public", "second"} {
			p := Pool{Name: name, Created: time.Unix(int64(i), 0), ByPort: byPort, Share: ShareNamespace, PerTenant: Unbounded, Requestable: true, Ranges: of[name]}
			if byPort {
				p.Share = ShareAny
			}
			pools = append(pools, p)
		}
		return pools
	}
	l, pools := New(), draw()
	l.SetPools(pools)
	held := map[Ref]netip.Addr{}
	who := func() Needs {
		n := needs("a", rapid.SampledFrom([]string{"v", "w", "x", "y", "z"}).Draw(t, "name"), rapid.Int32Range(80, 81).Draw(t, "port"))
		n.Pools = []string{"public", "second"}
		return n
	}
	t.Repeat(map[string]func(*rapid.T){
		"pools": func(*rapid.T) {
			pools = draw()
			l.SetPools(pools)
		},
		"ask": func(t *rapid.T) {
			n := who()
			if rapid.Bool().Draw(t, "wish") {
				n.Wanted = []netip.Addr{mustRangeRapid(rapid.SampledFrom(blocks).Draw(t, "wanted")).First}
			}
			before, had := held[n.Ref]
			d := grantAll(l, n)
			if d.Waits() {
				if had {
					t.Fatalf("%s lost %s: %s", n.Ref, before, d.Message)
				}
				return
			}
			now := d.Steps[0].Entry
			if held[n.Ref] = now.Address; had && now.Address == before {
				return
			}
			if had && !byPort && !slices.Contains(n.Wanted, now.Address) {
				t.Fatalf("%s was moved from %s to %s", n.Ref, before, now.Address)
			}
			has := func(p Pool) bool {
				return p.Name == now.Pool && slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Contains(now.Address) })
			}
			if !slices.ContainsFunc(pools, has) {
				t.Fatalf("%s got %s, which pool %s doesn't have", n.Ref, now.Address, now.Pool)
			}
		},
		"leave": func(*rapid.T) {
			r := who().Ref
			leave(l, r)
			delete(held, r)
		},
		"prove": func(t *rapid.T) {
			for _, e := range l.All() {
				if e.Phase == Releasing && rapid.Bool().Draw(t, "gone") {
					l.Delete(e.Name)
				}
			}
		},
		"": func(*rapid.T) {
			for r, at := range held {
				if got := placesOf(l, r); len(got) != 1 || got[0] != at {
					t.Fatalf("%s holds %v, had %s", r, got, at)
				}
			}
			anew, entries := New(), l.All()
			anew.SetPools(pools)
			rand.New(rand.NewSource(int64(len(entries)))).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
			for _, e := range entries {
				anew.Set(e)
			}
			for _, p := range pools {
				outside := int64(0)
				for _, e := range entries {
					if e.Pool == p.Name && !slices.ContainsFunc(p.Ranges, func(r Range) bool { return r.Contains(e.Address) }) {
						outside++
					}
				}
				a, b := l.CountsOf(p.Name), anew.CountsOf(p.Name)
				if a.Outside != outside || fmt.Sprint(a) != fmt.Sprint(b) {
					t.Fatalf("%s: counted step by step %+v, at once %+v, and %d are outside", p.Name, a, b, outside)
				}
			}
		},
	})
}
