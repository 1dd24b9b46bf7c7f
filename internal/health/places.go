package health

import (
	"cmp"
	"container/heap"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// places bounds the checks in flight. One that is due begins while those in flight of its address, of its tenant and of all,
// added up, are fewer than the limit; else it waits. So a tenant whose targets are all silent holds half of the places, and
// one of its addresses a third; with more such tenants each holds less, and whoever has nothing in flight finds a place. (In
// switches that share a memory between queues this is known as dynamic thresholds.)
//
// Places that become free go to whoever has the fewest, and of those to who got one longest ago.
type places struct {
	limit   int
	metrics *metrics

	running int
	tenants map[lb.TenantID]*tenant
	// waiting are the tenants of which checks wait.
	waiting pile[*tenant]
	// turns counts the checks that began.
	turns uint64
}

// tenant is whom the probes of a namespace count for. It is there while one of its addresses is.
type tenant struct {
	id        lb.TenantID
	addresses map[netip.Addr]*address
	running   int
	// waiting are the addresses of which checks wait.
	waiting pile[*address]
	at      int
	// turn is the last check that began.
	turn uint64

	waits prometheus.Gauge
	late  prometheus.Counter
}

// address is one of a tenant's. It is there while it has probes, or checks in flight: who takes probes away and gives
// others has no places more for it.
type address struct {
	addr            netip.Addr
	tenant          *tenant
	probes, running int
	// waiting are the probes that are due and may not be checked yet, by when they are due.
	waiting pile[*state]
	at      int
	turn    uint64
}

func (t *tenant) place() *int { return &t.at }

// before: all checks of t that wait may begin if those of o may, for its first has the fewest in flight.
func (t *tenant) before(o *tenant) bool {
	return cmp.Or(cmp.Compare(t.fewest(), o.fewest()), cmp.Compare(t.turn, o.turn)) < 0
}

// fewest is the least in flight, of the tenant and of an address of it of which checks wait.
func (t *tenant) fewest() int { return t.running + t.waiting[0].running }

func (a *address) place() *int { return &a.at }
func (a *address) before(o *address) bool {
	return cmp.Or(cmp.Compare(a.running, o.running), cmp.Compare(a.turn, o.turn)) < 0
}

// may tells whether a check of a may begin.
func (p *places) may(a *address) bool { return a.running+a.tenant.running+p.running < p.limit }

// next is the check that waits and begins next, as soon as it may; nil: none waits.
func (p *places) next() *state {
	if len(p.waiting) == 0 {
		return nil
	}
	return p.waiting[0].waiting[0].waiting[0]
}

// of is where probes of an address count that count for a tenant.
func (p *places) of(id lb.TenantID, addr netip.Addr) *address {
	t := p.tenants[id]
	if t == nil {
		t = &tenant{id: id, addresses: map[netip.Addr]*address{}, at: -1, waits: p.metrics.waiting.WithLabelValues(string(id)), late: p.metrics.late.WithLabelValues(string(id))}
		p.tenants[id] = t
	}
	a := t.addresses[addr]
	if a == nil {
		a = &address{addr: addr, tenant: t, at: -1}
		t.addresses[addr] = a
	}
	return a
}

// join has a probe count for a.
func (p *places) join(s *state, a *address) {
	s.of = a
	a.probes++
}

// leave has a probe count for nobody; its check that is in flight holds its place.
func (p *places) leave(s *state) {
	p.stopWaiting(s)
	s.of.probes--
	p.drop(s.of)
}

// move has a probe count for another.
func (p *places) move(s *state, to *address) {
	from, waits := s.of, s.waits
	p.stopWaiting(s)
	if s.running {
		p.add(from, -1)
		p.add(to, 1)
	}
	from.probes--
	p.join(s, to)
	p.drop(from)
	if waits {
		p.wait(s)
	}
}

// wait has the check of s, which is due, wait for a place.
func (p *places) wait(s *state) {
	s.waits = true
	heap.Push(&s.of.waiting, s)
	s.of.tenant.waits.Inc()
	p.sort(s.of)
}

func (p *places) stopWaiting(s *state) {
	if !s.waits {
		return
	}
	s.waits = false
	heap.Remove(&s.of.waiting, s.at)
	s.of.tenant.waits.Dec()
	p.sort(s.of)
}

// begin gives s a place, until end.
func (p *places) begin(s *state, now time.Time) {
	if s.waits && now.Sub(s.next) > s.Check.Interval {
		s.of.tenant.late.Inc()
	}
	p.stopWaiting(s)
	p.turns++
	s.running, s.of.turn, s.of.tenant.turn = true, p.turns, p.turns
	p.add(s.of, 1)
}

func (p *places) end(s *state) {
	s.running = false
	p.add(s.of, -1)
	p.drop(s.of)
}

// add counts checks in flight.
func (p *places) add(a *address, n int) {
	p.running += n
	a.tenant.running += n
	a.running += n
	p.sort(a)
}

// sort puts a, and its tenant, where they belong among those of which checks wait.
func (p *places) sort(a *address) {
	sort(&a.tenant.waiting, a, len(a.waiting) > 0)
	sort(&p.waiting, a.tenant, len(a.tenant.waiting) > 0)
}

// drop forgets a, if there is nothing of it.
func (p *places) drop(a *address) {
	if a.probes > 0 || a.running > 0 {
		return
	}
	t := a.tenant
	delete(t.addresses, a.addr)
	if len(t.addresses) > 0 {
		return
	}
	delete(p.tenants, t.id)
	p.metrics.waiting.DeleteLabelValues(string(t.id))
	p.metrics.late.DeleteLabelValues(string(t.id))
}
