package nftables

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

const (
	// settle is the time that packets need that were on their way when a change took effect.
	settle = 20 * time.Millisecond
	// Between two sweeps there is at least the one, and rest times what the last one took, so that counting never takes
	// more than a thirtieth of a processor; when nothing changes it becomes seldom. Flows to a dead member wait for restFlush times.
	sweepSoon   = 250 * time.Millisecond
	sweepSeldom = 2 * time.Second
	// sweepLazy is for marks that connections still have, and that nobody waits for.
	sweepLazy = 30 * time.Second
	rest      = 30
	restFlush = 3
	// probeAgain is when a member is asked again: it answers no more often than every half second.
	probeAgain = 600 * time.Millisecond
	// forgetCut is how long a connection that was cut is remembered, so that both ends learn of it.
	forgetCut = 5 * time.Second
	// actFor bounds how long a sweep ends connections, one request each; what is left waits for the next.
	actFor = time.Second
)

// cutFlow is a connection that was cut.
type cutFlow struct {
	flow flow
	at   time.Time
	// again: the member was asked again.
	again bool
}

// watch counts connections of who leaves, and ends them in time.
func (d *Dataplane) watch() {
	runtime.LockOSThread() // to know how long this thread worked
	defer runtime.UnlockOSThread()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	pause, took := sweepSoon, time.Duration(0)
	var next, ended time.Time // next is zero while nobody leaves
	for {
		select {
		case <-d.done:
			return
		case now := <-look.C:
			d.lookAround(now)
			continue
		case <-d.kick:
			pause = sweepSoon
			soon := latest(time.Now().Add(settle), ended.Add(d.patience()*took))
			if next.IsZero() || soon.Before(next) || time.Until(next) < settle {
				next = soon
				timer.Reset(time.Until(next))
			}
			continue
		case <-timer.C:
		}
		began := worked()
		found := d.sweep(time.Now())
		took, ended, next = worked()-began, time.Now(), time.Time{}
		d.metrics.swept(took)
		switch {
		case found.changed:
			pause = sweepSoon
		default:
			pause = min(pause*2, sweepSeldom)
		}
		switch {
		case found.short:
			next = ended.Add(settle)
		case found.active:
			next = ended.Add(max(pause, rest*took))
		case found.lingers:
			next = ended.Add(max(sweepLazy, rest*took))
		default:
			continue
		}
		if !found.due.IsZero() && found.due.Before(next) {
			next = latest(found.due, ended.Add(max(settle, rest*took)))
		}
		timer.Reset(time.Until(next))
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// patience is how many times what the last sweep took must have passed before the next: flows to a dead member don't
// wait as long as those that are counted.
func (d *Dataplane) patience() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.leaving.flushes) > 0 {
		return restFlush
	}
	return rest
}

// worked is how long the calling thread has used a processor.
func worked() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// found is what a sweep found.
type found struct {
	// active: somebody waits for connections to end. lingers: a mark waits to be free.
	active, lingers, changed bool
	// short: there was more to end than there was time for.
	short bool
	// due is when the next connection is to be cut.
	due time.Time
}

func (f *found) sooner(t time.Time) {
	if f.due.IsZero() || t.Before(f.due) {
		f.due = t
	}
}

// sweep is one look at all connections that matter.
type sweep struct {
	d       *Dataplane
	now     time.Time
	whole   bool
	missing bool // some may not have been looked at
	partial bool // so, or some that were to be ended have not been
	found   found
	leavers map[leaverKey]int64
	closers map[closerKey]int64
	perMark map[mark]int64
	flushes map[flush]bool
	cut     []flow
	forget  []flow
}

// sweep counts, cuts and flushes.
func (d *Dataplane) sweep(now time.Time) found {
	s := &sweep{d: d, now: now, leavers: map[leaverKey]int64{}, closers: map[closerKey]int64{}, perMark: map[mark]int64{}, flushes: map[flush]bool{}}
	m, mask, any := s.begin()
	if any {
		err := dumpFlows(d.flows, m, mask, s.look)
		if err != nil && !errors.Is(err, nl.ErrInterrupted) {
			d.log.Warn("connections can't be counted", "err", err)
			return found{active: true}
		}
		s.missing = err != nil
		s.partial = s.missing
	}
	s.act()
	return s.end()
}

// begin says which marks are to be looked at.
func (s *sweep) begin() (m, mask mark, any bool) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	l := &s.d.leaving
	s.whole = l.whole
	if s.whole {
		return markBase, markMask, true
	}
	tags := map[tag]bool{}
	for k, v := range l.leavers {
		if !v.ended() {
			tags[k.tag] = true
		}
	}
	for k := range l.closers {
		tags[k.tag] = true
	}
	for f := range l.flushes {
		s.flushes[f] = true
		tags[f.tag] = true
	}
	mask = ^(markCut | markTold)
	for k, v := range s.d.byMark {
		if !tags[v.tag] && len(v.pools) > 0 {
			continue
		}
		if !any {
			m, any = k, true
		}
		// Marks that differ in a bit are looked at without it: too many rather than too few.
		mask &^= m ^ k
	}
	return m & mask, mask, any
}

// look judges one connection.
func (s *sweep) look(f *flow) {
	if !f.mark.ours() || f.member == f.vip {
		return
	}
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	m := f.mark.spread()
	if f.mark.cut() {
		s.perMark[m]++
		if s.whole {
			s.forget = append(s.forget, f.keep())
		}
		return
	}
	sp := d.byMark[m]
	if sp == nil || f.over() {
		return
	}
	s.perMark[m]++
	if f.protocol != unix.IPPROTO_TCP || f.state <= tcpSynSent {
		// What has no connection to lose goes elsewhere with its next packet.
		a := f.member.Addr()
		flushed := s.flushes[flush{tag: sp.tag, address: a}] || s.flushes[flush{mark: m, tag: sp.tag, address: a}]
		if flushed && !slices.Contains(sp.have, a) { // Else it is back, with new flows.
			s.forget = append(s.forget, f.keep())
			return
		}
	}
	at := f.socket()
	c, l := s.closerOf(at, sp, f), s.leaverOf(at, sp, f)
	if c != nil {
		s.closers[c.closerKey]++
		s.bound(f, c.since, c.drain)
	}
	if l != nil {
		s.leavers[leaverKey{sp.tag, f.member.Addr()}]++
		drain := l.drainFor
		if drain == lb.DrainUnset {
			drain = s.drainOf(at, c)
		}
		s.bound(f, l.since, drain)
	}
}

func (s *sweep) drainOf(at lb.Socket, c *closer) time.Duration {
	if c != nil {
		return c.drain
	}
	if socket := s.d.sockets[at]; socket != nil && socket.have != nil {
		return socket.have.drain
	}
	return s.d.o.OrphanTimeout
}

// closerOf is the route of f, if its socket no longer has it.
func (s *sweep) closerOf(at lb.Socket, sp *spread, f *flow) *closer {
	k := closerKey{at, sp.tag, f.member.Port()}
	c := s.d.leaving.closers[k]
	if c != nil || !s.whole {
		return c
	}
	if socket := s.d.sockets[at]; socket != nil && socket.have != nil && socket.have.tag == sp.tag && socket.have.port == f.member.Port() {
		return nil
	}
	// A former process left it. Whose it was nobody knows; its address must not seem to be free.
	assigned := s.d.assigned.ours[at.Address]
	c = &closer{closerKey: k, id: idOf("", at), since: s.now, drain: s.d.o.OrphanTimeout, assign: assigned}
	s.d.leaving.closers[k] = c
	s.d.use(at.Address, 1, one(assigned))
	return c
}

func (s *sweep) leaverOf(at lb.Socket, sp *spread, f *flow) *leaver {
	k := leaverKey{sp.tag, f.member.Addr()}
	l := s.d.leaving.leavers[k]
	if l != nil || !s.whole {
		return l
	}
	if sp.group == nil { // Nobody uses the group: its routes are closers.
		return nil
	}
	if _, ok := sp.group.addresses[f.member.Addr()]; ok {
		return nil
	}
	l = &leaver{tenant: sp.group.key.tenant, since: s.now, drainFor: lb.DrainUnset, gone: true}
	s.d.leaving.leavers[k] = l
	return l
}

// bound has f cut if its time is over.
func (s *sweep) bound(f *flow, since time.Time, drain time.Duration) {
	if drain <= 0 {
		return
	}
	if end := since.Add(drain); end.After(s.now) {
		s.found.sooner(end)
		return
	}
	if n := len(s.cut); n > 0 && s.cut[n-1].client == f.client && s.cut[n-1].vip == f.vip && s.cut[n-1].protocol == f.protocol {
		return // by its route as well as by its member
	}
	s.cut = append(s.cut, f.keep())
}

// act ends what was found to be over, for as long as it may.
func (s *sweep) act() {
	end := time.Now().Add(actFor)
	for i := range s.cut {
		f := &s.cut[i]
		if s.over(end) {
			s.cut = s.cut[:i]
			break
		}
		if f.protocol != unix.IPPROTO_TCP {
			s.forget = append(s.forget, *f)
			continue
		}
		if err := f.setCut(s.d.flows); err != nil {
			s.d.log.Warn("connection can't be cut", "client", f.client.String(), "err", err)
			continue
		}
		s.d.probes.probe(f.vip, f.client)
		s.d.probes.probe(f.back, f.member)
	}
	for i := range s.forget {
		if s.over(end) {
			break
		}
		if err := s.forget[i].delete(s.d.flows); err != nil {
			s.d.log.Warn("connection can't be forgotten", "client", s.forget[i].client.String(), "err", err)
		}
	}
	s.forgetCut(end)
}

// over says that no more is to be ended now: it took long, or the data plane closes. The rest is found again.
func (s *sweep) over(end time.Time) bool {
	select {
	case <-s.d.done:
		s.found.short = true
	default:
		s.found.short = s.found.short || time.Now().After(end)
	}
	s.partial = s.partial || s.found.short
	return s.found.short
}

// end notes what was counted.
func (s *sweep) end() found {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return found{}
	}
	l := &d.leaving
	l.whole = l.whole && (!s.whole || s.partial)
	s.found.active = l.whole
	s.countLeft()
	if !l.whole {
		d.letGoFound()
	}
	for f, n := range l.flushes {
		if !s.flushes[f] || s.partial {
			continue // it came meanwhile, or not all were seen
		}
		if l.flushes[f] = n + 1; n+1 >= 2 {
			delete(l.flushes, f)
		}
	}
	for _, sp := range d.byMark {
		if len(sp.pools) > 0 {
			continue
		}
		switch {
		case s.perMark[sp.mark] > 0:
			sp.quiet = 0
			s.found.lingers = true
		case s.missing:
			s.found.active = true
		default:
			sp.quiet++
			s.found.active = true
		}
		if sp.quiet >= quietSweeps {
			d.dirty.spreads[sp] = struct{}{}
			s.found.changed = true
		}
	}
	s.found.active = s.found.active || len(l.flushes) > 0 || len(l.cut) > 0
	if len(s.cut)+len(s.forget) > 0 {
		s.found.changed = true
	}
	d.publish()
	d.tidy()
	return s.found
}

func (s *sweep) countLeft() {
	l := &s.d.leaving
	for k, v := range l.leavers {
		if v.ended() || v.since.After(s.now) {
			continue
		}
		s.note(&v.tally, s.leavers[k])
		if v.ended() && v.gone {
			delete(l.leavers, k)
			continue
		}
		s.found.active = s.found.active || !v.ended()
	}
	for k, c := range l.closers {
		if c.since.After(s.now) {
			s.found.active = true
			continue
		}
		s.note(&c.tally, s.closers[k])
		if c.ended() {
			delete(l.closers, k)
			s.d.use(k.socket.Address, -1, -one(c.assign))
			continue
		}
		s.found.active = true
	}
}

// note keeps a count. That none was seen says nothing where not all were looked at.
func (s *sweep) note(t *tally, open int64) {
	if s.missing && open == 0 {
		return
	}
	s.found.changed = s.found.changed || t.open != open || !t.counted
	t.note(open)
}

// forgetCut lets conntrack forget what was cut a while ago. Nobody but the watch knows of what was cut: it needs no lock.
func (s *sweep) forgetCut(end time.Time) {
	l := &s.d.leaving
	for _, f := range s.cut {
		if f.protocol == unix.IPPROTO_TCP {
			l.cut = append(l.cut, cutFlow{flow: f, at: s.now})
		}
	}
	kept := l.cut[:0]
	for _, c := range l.cut {
		if again := c.at.Add(probeAgain); again.After(s.now) {
			s.found.sooner(again)
		} else if !c.again {
			s.d.probes.probe(c.flow.back, c.flow.member)
			c.again = true
		}
		if until := c.at.Add(forgetCut); until.After(s.now) {
			kept = append(kept, c)
			s.found.sooner(until)
			continue
		}
		if s.over(end) {
			kept = append(kept, c)
			continue
		}
		if err := c.flow.delete(s.d.flows); err != nil {
			s.d.log.Warn("connection can't be forgotten", "client", c.flow.client.String(), "err", err)
		}
	}
	clear(l.cut[len(kept):])
	l.cut = kept
}

// tidy takes out of the table what only connections still needed, now that they have ended.
func (d *Dataplane) tidy() {
	if d.stale || len(d.dirty.spreads)+len(d.dirty.vips) == 0 {
		return
	}
	if err := d.commit(d.change()); err != nil { // The next Apply looks why.
		d.log.Warn("table can't be tidied", "err", err)
		d.stale = true
		return
	}
	d.committed()
	d.assign()
}
