package nftables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// mostRefused bounds how many objects that the kernel refuses are told apart at one Apply. Beyond, a tenant with one more
// keeps all that it has as it is.
const mostRefused = 50

// Recover implements dataplane.Dataplane: it reads what a former process left in the kernel.
func (d *Dataplane) Recover(_ context.Context, lastGood *lb.Program) (dataplane.Drift, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return dataplane.Drift{}, errClosed
	}
	if err := d.begin(); err != nil {
		return dataplane.Drift{}, err
	}
	var drift dataplane.Drift
	wanted := map[lb.Socket]bool{}
	if lastGood != nil {
		for i := range lastGood.Listeners {
			l := &lastGood.Listeners[i]
			wanted[l.Socket] = true
			if s := d.sockets[l.Socket]; s == nil || s.have == nil || !s.have.served() {
				drift.Missing += len(l.Frontends)
			}
		}
	}
	for at, s := range d.sockets {
		if s.have != nil && !wanted[at] {
			drift.Foreign++
		}
	}
	return drift, nil
}

// begin reads what runs, and starts to watch connections.
func (d *Dataplane) begin() error {
	if d.begun {
		return nil
	}
	if err := d.checkHost(); err != nil {
		return err
	}
	if err := d.reread(); err != nil {
		return err
	}
	if err := d.readAssigned(); err != nil {
		return err
	}
	id, err := generation(d.tables)
	if err != nil {
		return err
	}
	d.guarded = guarded{generation: id, read: time.Now()}
	if d.guarded.handle, err = d.layout.handle(d.tables); err != nil {
		return err
	}
	d.leaving.whole = true
	d.holdFound()
	d.begun = true
	d.watchOnce.Do(func() { d.watching.Go(d.watch) })
	return nil
}

// reread makes what the kernel has ours to know, whatever was believed before. What is wanted is to be worked out anew.
func (d *Dataplane) reread() error {
	r, err := d.layout.read(d.tables)
	if err != nil {
		return err
	}
	d.stale = true
	d.missing, d.replace = !r.current, r.exists && !r.current
	for _, s := range d.byMark {
		s.have, s.listed = nil, false
	}
	for _, s := range d.sockets {
		s.have = nil
	}
	for _, a := range d.vips {
		a.have = false
	}
	for _, a := range d.members {
		a.have = false
	}
	for m, g := range r.spreads {
		s := d.byMark[m]
		if s == nil {
			s = &spread{mark: m, note: g.comment, tag: noteTag(g.comment), pools: map[*pool]struct{}{}}
			d.byMark[m] = s
			d.marks.claim(m)
			if g.listed && g.comment != "" && d.byNote[g.comment] == nil {
				d.byNote[g.comment] = s
			}
		}
		s.have, s.listed = g.slots, g.listed && r.current
		d.dirty.spreads[s] = struct{}{}
	}
	for at, have := range r.sockets {
		s := d.socket(at)
		s.have = &route{
			mark: have.mark, open: have.open, admitted: have.admitted, port: have.port, hasPort: have.hasPort, limited: have.limited,
			sources: have.sources, comment: have.comment, id: idOf(have.comment, at), drain: d.o.OrphanTimeout,
		}
		if g := d.byMark[have.mark]; g != nil {
			s.have.tag = g.tag
		}
		d.dirty.sockets[s] = struct{}{}
	}
	for _, t := range d.targets {
		t.have = false
	}
	for p := range r.targets {
		d.target(p).have = true
	}
	for a := range r.vips {
		d.use(a, 0, 0)
		d.vips[a].have = r.current
	}
	for a := range r.members {
		d.countMember(a, 0)
		d.members[a].have = true
	}
	return nil
}

// Apply implements dataplane.Dataplane. It costs in proportion to changes, but the first time and after an error.
func (d *Dataplane) Apply(ctx context.Context, next *lb.Program, changes lb.Changes) (dataplane.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return dataplane.Outcome{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return dataplane.Outcome{}, errClosed
	}
	if err := d.begin(); err != nil {
		return dataplane.Outcome{}, err
	}
	if len(d.closedTo) > 0 && len(d.refused) > 0 {
		if err := d.checkHost(); err != nil {
			return dataplane.Outcome{}, err
		}
	}
	d.health = next.Health
	work, again := &changes, len(d.refused)
	if d.stale {
		whole := lb.Diff(nil, next)
		work = &whole
		d.forget()
	}
	d.retryRefused()
	d.plan(work)
	gone, err := d.commitAll(next)
	if err != nil {
		d.stale = true
		return dataplane.Outcome{}, err
	}
	d.stale, d.guarded.torn, d.program = false, false, next
	d.leave(&changes, gone)
	d.assign()
	out := dataplane.Outcome{How: dataplane.None, Refused: d.problems()}
	if !changes.Empty() || len(gone.routes)+len(gone.slots) > 0 || again > len(d.refused) {
		out.How, out.Because = dataplane.Hot, cmp.Or(changes.String(), "what ran was not what was wanted")
	}
	return out, nil
}

// retryRefused has what could not be served tried again.
func (d *Dataplane) retryRefused() {
	for id := range d.refused {
		if f := d.frontends[id]; f != nil && f.pool != nil && f.pool.spread != nil {
			d.dirty.slots[f.pool.spread] = struct{}{}
		}
		d.planSocket(id.Socket())
	}
}

// departed is what was committed out of the table: connections may still go by it.
type departed struct {
	routes map[*socket]*route
	slots  []departedSlots
	// sockets are all that were touched.
	sockets []*socket
}

// commitAll puts what is dirty in effect. What the kernel refuses stays as it is, and is named as a problem; the rest
// goes through. Where that is too much, all of the tenants that it belongs to stays.
func (d *Dataplane) commitAll(next *lb.Program) (departed, error) {
	reread := false
	blamed := map[lb.TenantID]bool{}
	for n := range mostRefused + len(next.Tenants) + 1 {
		if err := d.commitUnused(); err != nil {
			d.log.Info("spreads could not be put in beforehand", "err", err) // They come with the rest, which says why.
		}
		c := d.change()
		if c.empty() {
			return d.committed(), nil
		}
		err := d.commit(c)
		if err == nil {
			return d.committed(), nil
		}
		var r *refused
		if !errors.As(err, &r) {
			return departed{}, fmt.Errorf("changing table inet %s: %w", d.layout.table, err)
		}
		if !reread {
			// Somebody else may have changed our table: look, before anybody is blamed.
			d.log.Info("change refused; looking at what runs", "table", d.layout.table, "err", err)
			reread = true
			if err := d.reread(); err != nil {
				return departed{}, err
			}
			d.forget()
			whole := lb.Diff(nil, next)
			d.plan(&whole)
			continue
		}
		tenant, ok := d.blame(r.owner, refusalOf(r))
		if !ok {
			return departed{}, fmt.Errorf("changing table inet %s: %w", d.layout.table, err)
		}
		blamed[tenant] = true
		if n >= mostRefused-1 {
			d.blameAll(blamed, refusalOf(r))
		}
	}
	return departed{}, fmt.Errorf("changing table inet %s: the kernel refuses more than %d objects", d.layout.table, mostRefused)
}

// spreadsAtOnce bounds how many new spreads one transaction has: the kernel holds all of it twice for a moment.
const spreadsAtOnce = 500

// commitUnused puts in new spreads by themselves where there are many: no frontend goes by them yet, so nobody sees
// that they come bit by bit. A table that takes another one's place comes whole.
func (d *Dataplane) commitUnused() error {
	if d.replace || len(d.dirty.spreads) <= spreadsAtOnce {
		return nil
	}
	batch := make([]*spread, 0, spreadsAtOnce)
	put := func() error {
		c := newChange(d.layout)
		c.whole = d.missing
		for _, s := range batch {
			s.put(c, d.layout)
		}
		if c.empty() {
			return nil
		}
		if err := d.commit(c); err != nil {
			return err
		}
		d.missing = false
		for _, s := range batch {
			s.have, s.listed = s.want, true
			delete(d.dirty.spreads, s)
		}
		batch = batch[:0]
		return nil
	}
	for s := range d.dirty.spreads {
		if len(s.have) > 0 || len(s.pools) == 0 {
			continue
		}
		if batch = append(batch, s); len(batch) == spreadsAtOnce {
			if err := put(); err != nil {
				return err
			}
		}
	}
	return put()
}

func refusalOf(r *refused) string {
	return fmt.Sprintf("the kernel of this host refuses it: %v; the operator of the proxies must look why", errors.Unwrap(r.err))
}

// blame leaves what the kernel refuses as it is, and says whose that was; false: it named nothing that could be left.
func (d *Dataplane) blame(o owner, message string) (lb.TenantID, bool) {
	switch s, g := o.socket, o.spread; {
	case s != nil && s.want != nil:
		id := s.want.id
		d.unwant(s)
		d.refuse(id, reasonPending, message)
		return id.Tenant, true
	case g != nil && len(g.pools) > 0:
		g.want = g.have
		for o := range g.pools {
			for id, f := range o.frontends {
				if s := d.sockets[id.Socket()]; s.want != nil && s.want.id == f.f.ID {
					d.unwant(s)
				}
				d.refuse(id, reasonPending, message)
			}
		}
		return g.key.Tenant, true
	}
	return "", false
}

// blameAll leaves all that these tenants have as it is.
func (d *Dataplane) blameAll(tenants map[lb.TenantID]bool, message string) {
	for s := range d.dirty.spreads {
		if len(s.pools) > 0 && tenants[s.key.Tenant] && !slices.Equal(s.want, s.have) {
			d.blame(owner{spread: s}, message)
		}
	}
	for s := range d.dirty.sockets {
		if s.want != nil && tenants[s.want.id.Tenant] && !s.want.same(s.have) {
			d.blame(owner{socket: s}, message)
		}
	}
}

// same says that the kernel has nothing to change from one to the other.
func (r *route) same(have *route) bool {
	return have != nil && r.open == have.open && r.admitted == have.admitted && r.mark == have.mark && r.hasPort == have.hasPort && r.port == have.port &&
		r.limited == have.limited && r.comment == have.comment && slices.Equal(r.sources, have.sources)
}

// unwant has a socket served as it was.
func (d *Dataplane) unwant(s *socket) {
	s.want = s.have
	d.hold(s)
}

// change collects what is dirty.
func (d *Dataplane) change() *change {
	c := newChange(d.layout)
	c.whole, c.remove = d.missing, d.replace
	for s := range d.dirty.spreads {
		s.put(c, d.layout)
	}
	for s := range d.dirty.sockets {
		s.put(c, d.layout)
	}
	for a := range d.dirty.vips {
		a.put(c, d.layout.of(a.at).vips)
	}
	for a := range d.dirty.members {
		a.put(c, d.layout.of(a.at).members)
	}
	for t := range d.dirty.targets {
		t.put(c, d.layout)
	}
	return c
}

// committed notes that the kernel has what is wanted, and returns what it had instead.
func (d *Dataplane) committed() departed {
	gone := departed{routes: map[*socket]*route{}}
	for s := range d.dirty.spreads {
		if len(s.have) > 0 {
			gone.slots = append(gone.slots, departedSlots{s, s.have})
		}
		s.have, s.listed = s.want, len(s.pools) > 0 || s.quiet < quietSweeps
		if !s.listed {
			delete(d.byMark, s.mark)
			if d.byNote[s.note] == s {
				delete(d.byNote, s.note)
			}
			d.marks.free(s.mark)
		}
	}
	for s := range d.dirty.sockets {
		if s.have != nil && s.have.served() {
			gone.routes[s] = s.have
		}
		s.have = s.want
		gone.sockets = append(gone.sockets, s)
	}
	for a := range d.dirty.vips {
		a.have = a.users > 0
		if !a.have && a.assigners == 0 {
			delete(d.vips, a.at)
		}
	}
	for a := range d.dirty.members {
		if a.have = a.users > 0; !a.have {
			delete(d.members, a.at)
		}
	}
	for t := range d.dirty.targets {
		if t.have = t.users > 0; !t.have {
			delete(d.targets, t.port)
		}
	}
	// assign looks at the addresses that changed.
	for a := range d.dirty.vips {
		d.assigned.look[a.at] = struct{}{}
	}
	d.dirty = newDirty()
	d.missing, d.replace = false, false
	return gone
}

// checkHost looks whether packets go through this host, and how lost connections end. It changes nothing.
func (d *Dataplane) checkHost() error {
	const loose = "net.netfilter.nf_conntrack_tcp_loose"
	v, err := d.ns.sysctls(loose, forwarding4, forwarding6)
	if err != nil {
		return err
	}
	if !d.begun && v[loose] == "0" {
		d.log.Warn("clients in the middle of a connection that is unknown here are not reset but left to time out; set the sysctl to 1", "sysctl", loose)
	}
	d.closedTo = map[*family]string{}
	for f, name := range map[*family]string{d.layout.v4: forwarding4, d.layout.v6: forwarding6} {
		if v[name] == "0" {
			d.closedTo[f] = name
		}
	}
	return nil
}

const (
	forwarding4 = "net.ipv4.ip_forward"
	forwarding6 = "net.ipv6.conf.all.forwarding"
)
