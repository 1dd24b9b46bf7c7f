package ipam

import (
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// queue is a ledger with those who wait for it, as its keeper serves them: whenever something may have come free, all who wait
// are asked again, the oldest first.
type queue struct {
	*Ledger
	asks    map[Ref]Needs
	waiting map[Ref]bool
	had     map[Ref][]netip.Addr // where each was granted something last
}

func (q *queue) serve(t *rapid.T) {
	var refs []Ref
	for r := range q.waiting {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return CompareNeeds(q.asks[a], q.asks[b]) })
	for i, r := range refs {
		n := q.asks[r]
		if d := grantAll(q.Ledger, n); !d.Waits() {
			delete(q.waiting, r)
			for _, older := range refs[:i] {
				o := q.asks[older]
				if q.waiting[older] && o.Namespace == n.Namespace && slices.Equal(o.Ports, n.Ports) && slices.Equal(o.Wanted, n.Wanted) {
					t.Fatalf("%s overtook %s, who asks for the same and is older", r, older)
				}
			}
		}
	}
}

func placesOf(l *Ledger, r Ref) (out []netip.Addr) {
	for _, e := range l.HeldBy(r) {
		if e.Phase == Granted && !slices.Contains(out, e.Address) {
			out = append(out, e.Address)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// portsOf are those that are granted to it.
func (q *queue) portsOf(r Ref) []Port {
	return portsOf(r, slices.DeleteFunc(q.HeldBy(r), func(e Entry) bool { return e.Phase != Granted }))
}

// TestEveryPoolKeepsItsPromises drives a ledger and its waiters with random events: addresses that are granted whole, by port,
// or as ports of the proxies' hosts. No socket ever has two holders; nobody is moved or cut who asks for what he has; who asked
// first for the same gets it first; and once others are gone, all who wait are served.
func TestEveryPoolKeepsItsPromises(t *testing.T) {
	pools := map[string]func() Pool{
		"whole": func() Pool {
			return Pool{Name: "public", Created: time.Unix(1, 0), Share: ShareNone, PerTenant: Unbounded, Requestable: true, Ranges: []Range{mustRangeRapid("192.0.2.0/30")}}
		},
		"shared": func() Pool {
			return Pool{Name: "public", Created: time.Unix(1, 0), Share: ShareAny, PerTenant: Unbounded, Requestable: true, Ranges: []Range{mustRangeRapid("192.0.2.0/31")}}
		},
		"by port": func() Pool {
			return Pool{Name: "public", Created: time.Unix(1, 0), ByPort: true, Share: ShareAny, PerTenant: Unbounded, Requestable: true, Ranges: []Range{mustRangeRapid("192.0.2.0/31")}}
		},
		"hosts": func() Pool { return hostsPool("80-90") },
	}
	for name, make := range pools {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { keepPromises(t, make()) })
		})
	}
}

func keepPromises(t *rapid.T, p Pool) {
	q := &queue{Ledger: New(), asks: map[Ref]Needs{}, waiting: map[Ref]bool{}, had: map[Ref][]netip.Addr{}}
	q.SetPools([]Pool{p})
	q.SetHosts(map[string][]netip.Addr{"edge": {netip.MustParseAddr("192.0.2.200")}}, nil)
	clock := int64(0)
	some := func(of map[Ref]Needs) (Ref, bool) {
		var refs []Ref
		for r := range of {
			refs = append(refs, r)
		}
		if len(refs) == 0 {
			return Ref{}, false
		}
		slices.SortFunc(refs, compareRefs)
		return rapid.SampledFrom(refs).Draw(t, "who"), true
	}
	ports := func() (out []Port) {
		for _, n := range rapid.SliceOfNDistinct(rapid.Int32Range(80, 83), 1, 2, rapid.ID).Draw(t, "ports") {
			out = append(out, Port{"TCP", n})
		}
		return SortPorts(out)
	}
	settle := func() {
		q.serve(t)
		q.check(t, p)
	}
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			clock++
			n := needs(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprintf("lb-%d", clock))
			n.Created, n.Ports = time.Unix(clock/2, 0), ports() // two a second: then the name decides
			q.asks[n.Ref], q.waiting[n.Ref] = n, true
			settle()
		},
		"other ports": func(t *rapid.T) {
			if r, ok := some(q.asks); ok {
				n := q.asks[r]
				before := placesOf(q.Ledger, r)
				had := q.portsOf(r)
				n.Ports = ports()
				q.asks[r] = n
				if !q.waiting[r] {
					d := grantAll(q.Ledger, n)
					if d.Waits() {
						t.Fatalf("%s lost what it had: %s", r, d.Message)
					}
					if after := placesOf(q.Ledger, r); len(intersect(had, n.Ports)) > 0 && !slices.Equal(before, after) {
						t.Fatalf("%s moved from %v to %v, and kept a port", r, before, after)
					}
				}
				settle()
			}
		},
		"again": func(*rapid.T) {
			if r, ok := some(q.asks); ok && !q.waiting[r] {
				before, had := placesOf(q.Ledger, r), intersect(q.portsOf(r), q.asks[r].Ports)
				// One that has no port that it asks for moves to where it can have one.
				if d := grantAll(q.Ledger, q.asks[r]); d.Waits() || len(had) > 0 && !slices.Equal(before, placesOf(q.Ledger, r)) {
					t.Fatalf("%s asked again and was moved: %+v", r, d)
				}
			}
		},
		"leave": func(*rapid.T) {
			if r, ok := some(q.asks); ok {
				q.leave(r)
				settle()
			}
		},
		"prove": func(t *rapid.T) {
			for _, e := range q.All() {
				if e.Phase == Releasing && rapid.Bool().Draw(t, "gone") {
					q.Delete(e.Name)
				}
			}
			settle()
		},
		"another manager": func(*rapid.T) {
			entries := q.All()
			rand.New(rand.NewSource(clock)).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
			hosts := q.hosts
			q.Ledger = New()
			q.SetPools([]Pool{p})
			q.SetHosts(hosts, nil)
			for _, e := range entries {
				e.Created = time.Unix(1, 0) // those that are written have an age
				q.Set(e)
			}
			settle()
		},
	})
	// An end: as those who hold something go, and are proven gone, each who waits is served.
	for len(q.waiting) > 0 {
		before := len(q.asks)
		for _, e := range q.All() {
			if e.Phase == Releasing {
				q.Delete(e.Name)
			}
		}
		q.serve(t)
		for r := range q.asks {
			if !q.waiting[r] {
				q.leave(r)
			}
		}
		if len(q.asks) == before {
			t.Fatalf("these wait for ever: %v", q.waiting)
		}
	}
}

func (q *queue) leave(r Ref) {
	for _, e := range q.HeldBy(r) {
		if e.Phase == Granted {
			giveUp(q.Ledger, e, Entry{Holders: []Holder{{Ref: r}}})
		}
	}
	delete(q.asks, r)
	delete(q.waiting, r)
}

// check holds the ledger to what must always be true.
func (q *queue) check(t *rapid.T, p Pool) {
	type socket struct {
		a netip.Addr
		p Port
	}
	holder := map[socket]Ref{}
	var granted, releasing int64
	for _, e := range q.All() {
		if e.Name != e.What().Name() {
			t.Fatalf("%s holds %s", e.Name, e.What())
		}
		if e.Phase == Granted {
			granted++
		} else {
			releasing++
		}
		for _, h := range e.Holders {
			for _, port := range h.Ports {
				s := socket{e.Address, port}
				if other, two := holder[s]; two && other != h.Ref {
					t.Fatalf("%v is held by %s and %s", s, other, h.Ref)
				}
				holder[s] = h.Ref
				if e.ByPort() && port != e.Port {
					t.Fatalf("%s names port %s", e.Name, port)
				}
			}
		}
	}
	if c := q.CountsOf("public"); c.Granted != granted || c.Releasing != releasing {
		t.Fatalf("counted %+v of %d granted, %d releasing", c, granted, releasing)
	}
	for r := range q.asks {
		if at := placesOf(q.Ledger, r); len(at) > 1 || len(at) == 0 && !q.waiting[r] {
			t.Fatalf("%s has %v", r, at)
		}
	}
}
