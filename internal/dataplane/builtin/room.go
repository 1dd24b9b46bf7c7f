package builtin

import (
	"math"
	"sync"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/lb"
)

const (
	// perListener: of all flows one listener may hold this part, so that a flood to one leaves room to the others.
	perListener = 4
	// perTenant: of all flows one tenant may hold this part, however many listeners it has.
	perTenant = 2
	// sampled flows are looked at to find an old one that makes room.
	sampled = 8
)

// tenantFlows are a tenant's flows, those included that are about to end.
type tenantFlows struct {
	n  atomic.Int64
	mu sync.Mutex
	of map[*flow]struct{}
}

func (t *tenantFlows) add(f *flow) {
	t.n.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of[f] = struct{}{}
}

func (t *tenantFlows) remove(f *flow) {
	t.n.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, f)
}

// quiet is one that has been so for long, among a few; nil: there is none.
func (t *tenantFlows) quiet() *flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	var q quietest
	for f := range t.of { // in no order
		if q.look(f) {
			break
		}
	}
	return q.flow
}

func (u *datagrams) quiet() *flow {
	u.mu.Lock()
	defer u.mu.Unlock()
	var q quietest
	for _, f := range u.flows { // in no order
		if q.look(f) {
			break
		}
	}
	return q.flow
}

// quietest of those that it looked at.
type quietest struct {
	flow  *flow
	since int64
	seen  int
}

// look says that it has seen enough.
func (q *quietest) look(f *flow) bool {
	if f.dead.Load() {
		return false
	}
	if q.flow == nil {
		q.since = math.MaxInt64
	}
	if at := f.active.Load(); at < q.since {
		q.flow, q.since = f, at
	}
	q.seen++
	return q.seen == sampled
}

func (d *Dataplane) flowsOf(t lb.TenantID) *tenantFlows {
	of, ok := d.tenantFlows.Load(t)
	if !ok {
		of, _ = d.tenantFlows.LoadOrStore(t, &tenantFlows{of: map[*flow]struct{}{}})
	}
	return of.(*tenantFlows)
}

// largest is the tenant that has the most flows.
func (d *Dataplane) largest() *tenantFlows {
	var out *tenantFlows
	most := int64(0)
	d.tenantFlows.Range(func(_, of any) bool {
		if t := of.(*tenantFlows); t.n.Load() > most {
			out, most = t, t.n.Load()
		}
		return true
	})
	return out
}

// room makes room for one flow more, if need be by ending one that has been quiet for long: of the same socket where
// that has too many, of the same tenant where it has, else of the tenant that has the most.
func (d *Dataplane) room(u *datagrams, t lb.TenantID) bool {
	u.mu.Lock()
	n := len(u.flows)
	u.mu.Unlock()
	own := d.flowsOf(t)
	var victim *flow
	switch {
	case n >= u.max:
		victim = u.quiet()
	case own.n.Load() >= int64(max(d.o.MaxFlows/perTenant, 1)):
		victim = own.quiet()
	case d.flows.Load() >= int64(d.o.MaxFlows):
		if most := d.largest(); most != nil {
			victim = most.quiet()
		}
	default:
		return true
	}
	if victim == nil {
		return false
	}
	victim.cut()
	d.metrics.evicted.Inc()
	return true
}
