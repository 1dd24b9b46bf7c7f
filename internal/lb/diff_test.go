package lb

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// served is what a Program serves, as plain values without pointers.
type served struct {
	Listeners []Listener
	Frontends map[FrontendID]Frontend
	Pools     map[TenantID]map[PoolID]Pool
	Groups    map[TenantID]map[GroupID]Group
	Health    map[Probe]Verdict
}

func servedBy(p *Program) served {
	s := served{
		Frontends: map[FrontendID]Frontend{}, Pools: map[TenantID]map[PoolID]Pool{},
		Groups: map[TenantID]map[GroupID]Group{}, Health: map[Probe]Verdict{},
	}
	s.Listeners = append(s.Listeners, p.Listeners...)
	for id, t := range p.Tenants {
		s.Pools[id], s.Groups[id] = map[PoolID]Pool{}, map[GroupID]Group{}
		for _, f := range t.Frontends {
			s.Frontends[f.ID] = *f
		}
		for k, v := range t.Pools {
			s.Pools[id][k] = *v
		}
		for k, v := range t.Groups {
			s.Groups[id][k] = *v
		}
	}
	for c, v := range p.Health {
		for a, verdict := range v {
			s.Health[Probe{c, a}] = verdict
		}
	}
	return s
}

func TestApplyingTheDiffToTheOldGivesTheNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, next := drawProgram(t), drawProgram(t)
		before := servedBy(old)
		c := Diff(old, next)
		got := c.ApplyTo(old)
		if want := servedBy(next); !reflect.DeepEqual(servedBy(got), want) {
			t.Fatalf("got %+v\nwant %+v", servedBy(got), want)
		}
		if !reflect.DeepEqual(servedBy(old), before) {
			t.Fatal("the old Program was changed")
		}
		if again := Diff(got, next); !again.Empty() {
			t.Fatalf("not equal afterwards: %+v", again)
		}
		if c.Empty() != reflect.DeepEqual(before, servedBy(next)) {
			t.Fatalf("Empty is %v", c.Empty())
		}
	})
}

func TestDiffIsSortedAndNamesWhatChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Diff(drawProgram(t), drawProgram(t))
		if !slices.IsSortedFunc(c.Frontends, func(a, b FrontendChange) int { return a.ID.Compare(b.ID) }) ||
			!slices.IsSortedFunc(c.Listeners, func(a, b ListenerChange) int { return a.Socket.Compare(b.Socket) }) ||
			!slices.IsSortedFunc(c.Health, func(a, b HealthChange) int { return a.Probe.Compare(b.Probe) }) {
			t.Fatalf("not sorted: %+v", c)
		}
		for _, g := range c.Groups {
			if g.Old != nil && g.New != nil && len(g.Members) == 0 {
				t.Fatalf("group %s changed without a member: %+v", g.ID, g)
			}
			for _, m := range g.Members {
				if m.Old != nil && m.New != nil && *m.Old == *m.New {
					t.Fatalf("member %v did not change", m.Key)
				}
			}
		}
		for _, h := range c.Health {
			if h.Old == h.New {
				t.Fatalf("verdict did not change: %+v", h)
			}
		}
	})
}

func TestDiffOfNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		if c := Diff(p, p); !c.Empty() {
			t.Fatalf("%+v", c)
		}
		made := Diff(nil, p)
		if got := made.ApplyTo(nil); !reflect.DeepEqual(servedBy(got), servedBy(p)) {
			t.Fatalf("from nothing: %+v", servedBy(got))
		}
		gone := Diff(p, nil)
		if got := gone.ApplyTo(p); !reflect.DeepEqual(servedBy(got), servedBy(&Program{})) {
			t.Fatalf("to nothing: %+v", servedBy(got))
		}
	})
}

func TestDiffSkipsWhatIsShared(t *testing.T) {
	p, _ := bigProgram(10000)
	next := *p
	next.Tenants = maps.Clone(p.Tenants)
	s := *p.Tenants["t"]
	s.Groups = map[GroupID]*Group{"nodes": {ID: "nodes", Members: []Member{{UID: "a", Weight: 1}}}}
	next.Tenants["t"] = &s
	c := Diff(p, &next)
	if len(c.Groups) != 1 || len(c.Frontends)+len(c.Pools)+len(c.Listeners) != 0 {
		t.Fatalf("%+v", c)
	}
	if n := testing.AllocsPerRun(10, func() { Diff(p, &next) }); n > 20 {
		t.Fatalf("%v allocations for one group's change over 10,000 frontends", n)
	}
}

// bigProgram has n frontends of one tenant over one group.
func bigProgram(n int) (*Program, *Snapshot) {
	s := &Snapshot{Pools: map[PoolID]*Pool{}, Groups: map[GroupID]*Group{"nodes": {ID: "nodes"}}}
	p := &Program{Tenants: map[TenantID]*Snapshot{"t": s}}
	for i := range n {
		a := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		name := "lb-" + a.String()
		f := &Frontend{ID: FrontendID{"t", name, a, TCP, 80}, Pool: PoolID(name)}
		s.Frontends = append(s.Frontends, f)
		s.Pools[f.Pool] = &Pool{ID: f.Pool, Group: "nodes", Port: 80}
		p.Listeners = append(p.Listeners, Listener{f.ID.Socket(), []FrontendID{f.ID}})
	}
	slices.SortFunc(s.Frontends, func(a, b *Frontend) int { return a.ID.Compare(b.ID) })
	return p, s
}

// BenchmarkDiff compares Programs of 10,000 frontends that share all pointers but one.
func BenchmarkDiff(b *testing.B) {
	p, s := bigProgram(10000)
	changed := *s
	changed.Frontends = slices.Clone(s.Frontends)
	f := *s.Frontends[5000]
	f.IdleTimeout = 1
	changed.Frontends[5000] = &f
	changed.Pools = maps.Clone(s.Pools)
	next := *p
	next.Listeners = slices.Clone(p.Listeners)
	next.Tenants = map[TenantID]*Snapshot{"t": &changed}
	b.ReportAllocs()
	for b.Loop() {
		if c := Diff(p, &next); len(c.Frontends) != 1 {
			b.Fatal(c)
		}
	}
}
