package nftables

import (
	"maps"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// quietSweeps are how many sweeps in a row must find no connection until none is believed to be left.
const quietSweeps = 3

// leaverKey is a member's address in a group.
type leaverKey struct {
	tag     tag
	address netip.Addr
}

// leaver is a member that gets no new connection: it drains, or has left.
type leaver struct {
	tenant lb.TenantID
	member lb.MemberKey
	since  time.Time
	// drainFor as lb.Member has it.
	drainFor time.Duration
	// gone from the Program.
	gone bool
	tally
}

// closerKey is a route that a socket had.
type closerKey struct {
	socket lb.Socket
	tag    tag
	port   uint16
}

// closer is a route that a socket no longer has.
type closer struct {
	closerKey
	id    lb.FrontendID
	since time.Time
	// drain bounds its connections; 0: never.
	drain  time.Duration
	assign bool
	tally
}

// tally is the number of connections counted last.
type tally struct {
	open int64
	// counted at least once; quiet sweeps found none.
	counted bool
	quiet   int
}

func (t *tally) note(open int64) {
	t.open, t.counted = open, true
	if t.quiet++; open > 0 {
		t.quiet = 0
	}
}

// ended says that it has no connection and will have none.
func (t *tally) ended() bool { return t.quiet >= quietSweeps }

// shown is what to report: before it was counted it must not seem to be gone.
func (t *tally) shown() int64 {
	if !t.counted {
		return 1
	}
	return t.open
}

// flush is a member that takes no more datagrams.
type flush struct {
	// mark of the spread; 0: all of the tag.
	mark    mark
	tag     tag
	address netip.Addr
}

// leaving is what the watch looks for.
type leaving struct {
	leavers map[leaverKey]*leaver
	closers map[closerKey]*closer
	flushes map[flush]int
	// whole: a former process may have left connections that nobody knows of.
	whole bool
	// found are the addresses that a former process left, until whole is done; true: it put them on this host.
	found map[netip.Addr]bool
	// cut are the connections cut a moment ago; the watch's own.
	cut []cutFlow
}

func newLeaving() leaving {
	return leaving{leavers: map[leaverKey]*leaver{}, closers: map[closerKey]*closer{}, flushes: map[flush]int{}, found: map[netip.Addr]bool{}}
}

// holdFound has all addresses that were found kept, until it is known which of them have connections.
func (d *Dataplane) holdFound() {
	d.letGoFound()
	for a, v := range d.vips {
		if assigned := d.assigned.ours[a]; v.have || v.users > 0 || assigned {
			d.leaving.found[a] = assigned
			d.use(a, 1, one(assigned))
		}
	}
}

// letGoFound leaves each address to those that are known to need it.
func (d *Dataplane) letGoFound() {
	for a, assigned := range d.leaving.found {
		d.use(a, -1, -one(assigned))
	}
	clear(d.leaving.found)
}

// departedSlots are the slots that a spread had.
type departedSlots struct {
	spread *spread
	slots  []netip.Addr
}

// leave notes who has left with the changes that were committed.
func (d *Dataplane) leave(changes *lb.Changes, gone departed) {
	now := time.Now()
	for _, c := range changes.Groups {
		t := groupKey{c.Tenant, c.ID}.tag()
		for _, m := range c.Members {
			d.leaveMember(now, c.Tenant, t, d.groups[groupKey{c.Tenant, c.ID}], m)
		}
	}
	for s, old := range gone.routes {
		d.leaveRoute(now, s, old)
	}
	for _, s := range gone.sockets {
		d.returnRoute(s)
		d.hold(s)
		if s.have == nil && s.owner.Port == 0 {
			delete(d.sockets, s.at)
		}
	}
	d.flushDead(changes, gone)
	d.publish()
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

func (d *Dataplane) leaveMember(now time.Time, tenant lb.TenantID, t tag, g *group, m lb.MemberChange) {
	key := leaverKey{t, m.Key.Address}
	old := d.leaving.leavers[key]
	switch {
	case m.New != nil && m.New.Draining:
		l := &leaver{tenant: tenant, member: m.Key, since: now, drainFor: m.New.DrainFor}
		if old != nil && old.member == m.Key {
			l.since, l.tally = old.since, old.tally
		}
		d.leaving.leavers[key] = l
	case m.New != nil:
		delete(d.leaving.leavers, key)
	default:
		d.leaving.flushes[flush{tag: t, address: m.Key.Address}] = 0
		if g != nil {
			if _, ok := g.addresses[m.Key.Address]; ok { // Another target has its address: its connections can't be told apart.
				return
			}
		}
		l := &leaver{tenant: tenant, member: m.Key, since: now, drainFor: lb.DrainUnset, gone: true}
		if m.Old.Draining {
			l.drainFor = m.Old.DrainFor
		}
		if old != nil && old.member == m.Key {
			l.since, l.tally = old.since, old.tally
		}
		d.leaving.leavers[key] = l
	}
}

// leaveRoute notes that a socket has no longer the route that it had, unless only what does not matter differs.
func (d *Dataplane) leaveRoute(now time.Time, s *socket, old *route) {
	if s.have != nil && s.have.tag == old.tag && s.have.port == old.port {
		return
	}
	k := closerKey{s.at, old.tag, old.port}
	if d.leaving.closers[k] != nil {
		return
	}
	d.leaving.closers[k] = &closer{closerKey: k, id: old.id, since: now, drain: old.drain, assign: old.assign}
	d.use(s.at.Address, 1, one(old.assign))
}

// returnRoute gives connections back to a route that a socket has again.
func (d *Dataplane) returnRoute(s *socket) {
	if s.have == nil {
		return
	}
	k := closerKey{s.at, s.have.tag, s.have.port}
	if c := d.leaving.closers[k]; c != nil {
		delete(d.leaving.closers, k)
		d.use(s.at.Address, -1, -one(c.assign))
	}
}

// flushDead has the datagrams of members that died go elsewhere.
func (d *Dataplane) flushDead(changes *lb.Changes, gone departed) {
	dead := func(s *spread, a netip.Addr) {
		if s.pool == nil || d.health.Of(s.key.Check, a) != lb.Unhealthy {
			return
		}
		for _, b := range s.have {
			if a == b {
				return
			}
		}
		d.leaving.flushes[flush{mark: s.mark, tag: s.tag, address: a}] = 0
	}
	for _, g := range gone.slots {
		seen := map[netip.Addr]struct{}{}
		for i, a := range g.slots {
			if a != at(g.spread.have, i) {
				seen[a] = struct{}{}
			}
		}
		for a := range seen {
			dead(g.spread, a)
		}
	}
	for _, c := range changes.Health {
		if c.New != lb.Unhealthy {
			continue
		}
		for s := range d.byCheck[c.Probe.Check] {
			if _, ok := s.group.addresses[c.Probe.Address]; ok {
				dead(s, c.Probe.Address)
			}
		}
	}
}

// publish makes what was counted last the Observation.
func (d *Dataplane) publish() {
	o := dataplane.Observation{Draining: map[lb.TenantID]map[lb.MemberKey]int64{}, Closing: map[lb.FrontendID]int64{}}
	for _, l := range d.leaving.leavers {
		open := l.shown()
		if open == 0 || l.ended() || l.member.UID == "" || l.gone && d.serving[tenantMember{l.tenant, l.member}] > 0 {
			continue
		}
		of := o.Draining[l.tenant]
		if of == nil {
			of = map[lb.MemberKey]int64{}
			o.Draining[l.tenant] = of
		}
		of[l.member] += open
	}
	for _, c := range d.leaving.closers {
		open := c.shown()
		if _, ok := d.frontends[c.id]; ok || open == 0 || c.ended() || c.id.Port == 0 {
			continue
		}
		o.Closing[c.id] += open
	}
	for a := range d.leaving.found {
		if v := d.vips[a]; v != nil && v.users == 1 { // Nobody else speaks for it.
			o.Closing[lb.FrontendID{Address: a}]++
		}
	}
	old := d.observation.Load()
	if maps.Equal(old.Closing, o.Closing) && maps.EqualFunc(old.Draining, o.Draining, maps.Equal) {
		return
	}
	d.observation.Store(&o)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
