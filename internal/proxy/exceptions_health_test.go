package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// checkedTenants have one member each, asked in a way of its own and, with shared, also in one that all share.
func checkedTenants(n int, shared bool) *lb.Program {
	p := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}}
	for i := range n {
		p.Tenants[checkedTenant(i)] = checked(i, shared)
	}
	return p
}

func checkedTenant(i int) lb.TenantID { return lb.TenantID(fmt.Sprintf("t%d", i)) }
func ownCheck(i int) lb.Check         { return lb.Check{Kind: lb.CheckTCP, Port: uint16(1000 + i)} }

var sharedCheck = lb.Check{Kind: lb.CheckHTTP, Port: 10256}

func checked(i int, shared bool) *lb.Snapshot {
	s := &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{"g": {ID: "g", Members: []lb.Member{
		{UID: "u", Name: "n", TargetGroup: "nodes-0", GroupUID: "g", Address: memberOf(i)},
	}}}}
	s.Pools["own"] = &lb.Pool{ID: "own", Group: "g", Check: ownCheck(i)}
	if shared {
		s.Pools["shared"] = &lb.Pool{ID: "shared", Group: "g", Check: sharedCheck}
	}
	return s
}

func memberOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// What one tenant's members are found to be has nobody look at the others again, while their results come in and after.
func TestOnlyTheTenantIsLookedAtWhoseHealthIsAnother(t *testing.T) {
	const tenants = 20
	x, now := newExceptions(nil, nil), time.Now()
	p := checkedTenants(tenants, false)
	p.Health = lb.Health{}
	for i := range tenants - 1 { // The last one's is yet to come.
		p.Health[ownCheck(i)] = lb.Verdicts{memberOf(i): lb.Healthy}
	}
	looked := func(next *lb.Program) []lb.TenantID {
		before := map[lb.TenantID]*tenantHealth{}
		for id, h := range x.tenants {
			before[id] = h
		}
		x.of(&served{Program: next}, now, true)
		var out []lb.TenantID
		for id, h := range x.tenants {
			if before[id] != h {
				out = append(out, id)
			}
		}
		slices.Sort(out)
		return out
	}
	last := []lb.TenantID{checkedTenant(tenants - 1)}
	if got := looked(p); len(got) != tenants {
		t.Fatalf("at first: %v", got)
	}
	if got := looked(p); !slices.Equal(got, last) {
		t.Errorf("while one waits for its result: %v", got)
	}
	next := *p
	next.Health = lb.Health{ownCheck(tenants - 1): {memberOf(tenants - 1): lb.Healthy}}
	for c, v := range p.Health {
		next.Health[c] = v
	}
	if got := looked(&next); !slices.Equal(got, last) {
		t.Errorf("when it has its result: %v", got)
	}
	if got := looked(&next); len(got) > 0 {
		t.Errorf("when nothing happens: %v", got)
	}
}

// Step by step the same is said as by one who looks at all of it anew.
func TestHealthStepByStepIsThatOfTheWhole(t *testing.T) {
	const tenants = 8
	r := rand.New(rand.NewPCG(1, 2))
	x, now := newExceptions(nil, nil), time.Now()
	p := checkedTenants(tenants, true)
	for step := range 2000 {
		next := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}, Health: lb.Health{}}
		for id, s := range p.Tenants {
			next.Tenants[id] = s
		}
		for c, v := range p.Health {
			next.Health[c] = v
		}
		i := r.IntN(tenants)
		switch check := []lb.Check{ownCheck(i), sharedCheck}[r.IntN(2)]; r.IntN(3) {
		case 0:
			delete(next.Tenants, checkedTenant(i))
		case 1:
			next.Tenants[checkedTenant(i)] = checked(i, r.IntN(2) == 0)
		default:
			verdicts := lb.Verdicts{}
			for a, v := range next.Health[check] {
				verdicts[a] = v
			}
			// What was looked at once has a result: how long it has none is not in the Program.
			verdicts[memberOf(i)] = []lb.Verdict{lb.Healthy, lb.Unhealthy}[r.IntN(2)]
			next.Health[check] = verdicts
		}
		p, now = next, now.Add(2*quiet)
		x.of(&served{Program: p}, now, r.IntN(2) == 0)
		now = now.Add(2 * quiet)
		got, _ := x.of(&served{Program: p}, now, false)
		fresh := newExceptions(nil, nil)
		fresh.of(&served{Program: p}, now.Add(-2*quiet), true)
		want, _ := fresh.of(&served{Program: p}, now, true)
		for i := range tenants {
			g, w := got[string(checkedTenant(i))], want[string(checkedTenant(i))]
			if g == nil || w == nil {
				if g != w {
					t.Fatalf("step %d: of tenant %d is said %+v, should be %+v", step, i, g, w)
				}
			} else if g.differs(w) != same {
				t.Fatalf("step %d: of tenant %d is said %+v, should be %+v", step, i, g, w)
			}
		}
	}
}
