package build

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// said is a Program as values, for comparing.
type said struct {
	Listeners []lb.Listener
	Frontends map[string][]lb.Frontend
	Pools     map[string]lb.Pool
	Groups    map[string]lb.Group
	Problems  map[string][]lb.Problem
	Refused   map[string][]lb.Problem
	Absent    map[string][]lb.Absent
}

func say(p *lb.Program) said {
	s := said{
		Listeners: append([]lb.Listener{}, p.Listeners...), Frontends: map[string][]lb.Frontend{}, Pools: map[string]lb.Pool{},
		Groups: map[string]lb.Group{}, Problems: map[string][]lb.Problem{}, Refused: map[string][]lb.Problem{}, Absent: map[string][]lb.Absent{},
	}
	for id, x := range p.Tenants {
		n := string(id)
		s.Frontends[n] = []lb.Frontend{}
		for _, f := range x.Frontends {
			s.Frontends[n] = append(s.Frontends[n], *f)
		}
		for k, v := range x.Pools {
			s.Pools[fmt.Sprint(id, " ", k)] = *v
		}
		for k, v := range x.Groups {
			s.Groups[fmt.Sprint(id, " ", k)] = *v
		}
		s.Problems[n] = append([]lb.Problem{}, x.Problems...)
		s.Refused[n] = append([]lb.Problem{}, x.Refused...)
		s.Absent[n] = append([]lb.Absent{}, x.Absent...)
	}
	return s
}

// mustBeSound fails unless p keeps what the model promises.
func mustBeSound(t rapid.TB, p *lb.Program) {
	frontends := 0
	for id, s := range p.Tenants {
		if len(s.Frontends)+len(s.Problems)+len(s.Refused) == 0 {
			t.Fatalf("an empty Snapshot of %s", id)
		}
		if !slices.IsSortedFunc(s.Frontends, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) }) {
			t.Fatalf("frontends of %s are not sorted", id)
		}
		if !slices.IsSortedFunc(s.Problems, lb.Problem.Compare) || !slices.IsSortedFunc(s.Refused, lb.Problem.Compare) {
			t.Fatalf("problems of %s are not sorted", id)
		}
		frontends += len(s.Frontends)
		pools, groups := map[lb.PoolID]bool{}, map[lb.GroupID]bool{}
		if !slices.IsSortedFunc(s.Absent, lb.Absent.Compare) {
			t.Fatalf("absent targets of %s are not sorted", id)
		}
		for _, f := range s.Frontends {
			pool := s.Pools[f.Pool]
			mustRestrict(t, f)
			if family, _, ok := parseGroupID(pool.Group); !ok || family != familyOf(f.ID.Address) {
				t.Fatalf("%s: %+v sends to another family: %+v", id, f, pool)
			}
			if f.ID.Tenant != id || pool == nil || s.Groups[pool.Group] == nil {
				t.Fatalf("%s: %+v with pool %+v", id, f, pool)
			}
			pools[f.Pool], groups[pool.Group] = true, true
		}
		if len(pools) != len(s.Pools) || len(groups) != len(s.Groups) {
			t.Fatalf("%s has %d pools and %d groups, its frontends need %d and %d", id, len(s.Pools), len(s.Groups), len(pools), len(groups))
		}
		for gid, g := range s.Groups {
			keys := map[lb.MemberKey]bool{}
			family, _, _ := parseGroupID(gid)
			for _, m := range g.Members {
				if keys[m.Key()] || familyOf(m.Address) != family || m.Address.Is4In6() {
					t.Fatalf("%s: member %+v of %s", id, m, gid)
				}
				keys[m.Key()] = true
			}
			if !slices.IsSortedFunc(g.Members, func(a, b lb.Member) int { return a.Key().Compare(b.Key()) }) {
				t.Fatalf("%s: members of %s are not sorted", id, gid)
			}
		}
	}
	sockets := map[lb.Socket]bool{}
	for i, l := range p.Listeners {
		if sockets[l.Socket] {
			t.Fatalf("%s is there twice", l.Socket)
		}
		sockets[l.Socket] = true
		if i > 0 && p.Listeners[i-1].Socket.Compare(l.Socket) >= 0 {
			t.Fatal("listeners are not sorted")
		}
		for _, id := range l.Frontends {
			s := p.Tenants[id.Tenant]
			if s == nil {
				t.Fatalf("%s is for nobody", l.Socket)
			}
			if _, ok := findFrontend(s, id); !ok || id.Socket() != l.Socket {
				t.Fatalf("%s is for %v", l.Socket, id)
			}
			frontends--
		}
	}
	if frontends != 0 {
		t.Fatalf("%d frontends without a listener", frontends)
	}
}

// mustRestrict fails unless the sources are of the frontend's family, masked, sorted and apart.
func mustRestrict(t rapid.TB, f *lb.Frontend) {
	for i, p := range f.Sources {
		if p != p.Masked() || familyOf(p.Addr()) != familyOf(f.ID.Address) || p.Bits() == 0 {
			t.Fatalf("sources of %v: %v", f.ID, f.Sources)
		}
		if i > 0 && (f.Sources[i-1].Overlaps(p) || f.Sources[i-1].Addr().Compare(p.Addr()) >= 0) {
			t.Fatalf("sources of %v: %v", f.ID, f.Sources)
		}
	}
}

func drawHub(t *rapid.T, most int) hub {
	h := hub{}
	if rapid.Bool().Draw(t, "begin well") {
		h = goodHub()
	}
	for range rapid.IntRange(0, most).Draw(t, "objects") {
		o := drawObject(t)
		h[keyOf(o)] = o
	}
	return h
}

func TestPermutedInputGivesTheSameProgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHub(t, 30)
		opts := Options{ProxyPool: "edge", Zone: "east", Check: drawCheck(t)}
		keys := slices.Sorted(maps.Keys(h))
		names := drawNames(t)
		whole := func(keys []string) *lb.Program {
			o := h.objects(keys)
			o.Names = names
			return Whole(o, opts)
		}
		a := whole(keys)
		mustBeSound(t, a)
		b := whole(rapid.Permutation(keys).Draw(t, "permuted"))
		if x, y := say(a), say(b); !reflect.DeepEqual(x, y) {
			t.Fatalf("got  %+v\nthen %+v", x, y)
		}
	})
}

func TestBuildingStepByStepEqualsBuildingWhole(t *testing.T) { rapid.Check(t, stepByStep) }

func stepByStep(t *rapid.T) {
	opts := Options{ProxyPool: "edge", Check: drawCheck(t)}
	b := New(opts)
	h := drawHub(t, 0)
	for _, o := range h {
		b.Set(o)
	}
	last := b.Program()
	var names map[string][]netip.Addr
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		o := drawObject(t)
		switch n := rapid.IntRange(0, 10).Draw(t, "step"); {
		case n == 10:
			names = drawNames(t)
			b.SetNames(names)
		case n < 7:
			h[keyOf(o)] = o
			b.Set(o)
		case n < 9:
			delete(h, keyOf(o))
			b.Delete(o)
		default: // what was built so far is what is served
			opts.LastGood = b.Program()
			b.SetLastGood(opts.LastGood)
			last = opts.LastGood
		}
		if !rapid.Bool().Draw(t, "build") {
			continue
		}
		p := b.Program()
		mustBeSound(t, p)
		objects := h.objects(slices.Sorted(maps.Keys(h)))
		objects.Names = names
		whole := New(opts)
		want := whole.fill(objects)
		if x, y := b.Names(), whole.Names(); !maps.EqualFunc(x, y, slices.Equal[[]string]) {
			t.Fatalf("step by step it wants the names %v, whole %v", x, y)
		}
		if x, y := say(p), say(want); !reflect.DeepEqual(x, y) {
			t.Fatalf("step by step %+v\nwhole        %+v", x, y)
		}
		if c := lb.Diff(last, p); p != last && c.Empty() && reflect.DeepEqual(say(last), say(p)) {
			t.Fatal("another Program that says the same")
		}
		if b.Program() != p {
			t.Fatal("nothing changed, and another Program")
		}
		last = p
	}
}

// What does not change keeps its pointer: then Diff's cost is the change's.
func TestWhatDoesNotChangeKeepsItsPointer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(Options{ProxyPool: "edge"})
		for _, o := range drawHub(t, 30) {
			b.Set(o)
		}
		old := b.Program()
		b.Set(drawObject(t))
		next := b.Program()
		for id, s := range next.Tenants {
			was := old.Tenants[id]
			if was == nil {
				continue
			}
			for _, f := range s.Frontends {
				if at, ok := findFrontend(was, f.ID); ok && was.Frontends[at] != f && was.Frontends[at].Equal(f) {
					t.Fatalf("%v is equal, and another", f.ID)
				}
			}
			for k, p := range s.Pools {
				if o := was.Pools[k]; o != nil && o != p && o.Equal(p) {
					t.Fatalf("%v is equal, and another", k)
				}
			}
			for k, g := range s.Groups {
				if o := was.Groups[k]; o != nil && o != g && o.Equal(g) {
					t.Fatalf("%v is equal, and another", k)
				}
			}
		}
	})
}

// One object more, however broken, leaves other LoadBalancers as they are, but
// for those whose targets or class it is.
func TestABrokenObjectCostsOnlyItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHub(t, 30)
		opts := Options{ProxyPool: "edge"}
		before := Whole(h.objects(slices.Sorted(maps.Keys(h))), opts)
		var o metav1.Object = drawLoadBalancer(t)
		h[keyOf(o)] = o
		after := Whole(h.objects(slices.Sorted(maps.Keys(h))), opts)
		others := func(p *lb.Program) map[lb.FrontendID]lb.Frontend {
			out := map[lb.FrontendID]lb.Frontend{}
			for _, s := range p.Tenants {
				for _, f := range s.Frontends {
					if string(f.ID.Tenant) != o.GetNamespace() || f.ID.LoadBalancer != o.GetName() {
						out[f.ID] = *f
					}
				}
			}
			return out
		}
		if a, b := others(before), others(after); !reflect.DeepEqual(a, b) {
			t.Fatalf("before %+v\nafter  %+v", a, b)
		}
	})
}
