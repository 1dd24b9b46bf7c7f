package nftables

import (
	"fmt"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

// plan works out what is wanted after changes, and notes as dirty what may differ from what the kernel has.
func (d *Dataplane) plan(changes *lb.Changes) {
	for _, c := range changes.Groups {
		d.planGroup(c)
	}
	d.staleByHealth(changes.Health)
	for _, c := range changes.Pools {
		if c.New != nil {
			d.planPool(poolKey{c.Tenant, c.ID}, c.New)
		}
	}
	for _, c := range changes.Frontends {
		if c.New != nil {
			d.planFrontend(c.New)
		}
	}
	for _, c := range changes.Listeners {
		d.planListener(c)
	}
	for _, c := range changes.Frontends {
		if c.New == nil {
			d.dropFrontend(c.ID)
		}
	}
	for _, c := range changes.Pools {
		if c.New == nil {
			d.dropPool(poolKey{c.Tenant, c.ID})
		}
	}
	for _, c := range changes.Groups {
		if c.New == nil {
			d.dropGroup(d.groups[groupKey{c.Tenant, c.ID}])
		}
	}
	for s := range d.dirty.slots {
		d.planSlots(s)
	}
	clear(d.dirty.slots)
}

// forget lets go of all that is wanted, not of what the kernel has.
func (d *Dataplane) forget() {
	for _, s := range d.byMark {
		s.want, s.group, s.pool = nil, nil, nil
		clear(s.pools)
		d.dirty.spreads[s] = struct{}{}
	}
	for _, set := range []map[netip.Addr]*address{d.vips, d.members} {
		for _, a := range set {
			a.users, a.assigners = 0, 0
		}
	}
	for _, a := range d.members {
		d.dirty.members[a] = struct{}{}
	}
	for _, t := range d.targets {
		t.users = 0
		d.dirty.targets[t] = struct{}{}
	}
	for _, a := range d.vips {
		d.dirty.vips[a] = struct{}{}
	}
	for _, c := range d.leaving.closers {
		d.use(c.socket.Address, 1, one(c.assign))
	}
	for a, assigned := range d.leaving.found {
		d.use(a, 1, one(assigned))
	}
	for _, s := range d.sockets {
		s.owner, s.want, s.users, s.assigners = lb.FrontendID{}, nil, 0, 0
		d.hold(s)
		d.dirty.sockets[s] = struct{}{}
	}
	clear(d.refused)
	clear(d.serving)
	clear(d.groups)
	clear(d.spreads)
	clear(d.byCheck)
	clear(d.pools)
	clear(d.frontends)
}

func (d *Dataplane) planGroup(c lb.GroupChange) {
	key := groupKey{c.Tenant, c.ID}
	g := d.groups[key]
	if g == nil {
		g = newGroup(key)
		d.groups[key] = g
	}
	old := g.addresses
	d.countServing(g, -1)
	g.g, g.addresses = c.New, map[netip.Addr]struct{}{}
	if c.New == nil {
		g.g = &lb.Group{ID: c.ID}
	}
	d.countServing(g, 1)
	for i := range g.g.Members {
		if a := g.g.Members[i].Address; usable(a) {
			g.addresses[a] = struct{}{}
		}
	}
	for a := range g.addresses {
		if _, ok := old[a]; !ok {
			d.countMember(a, 1)
		}
	}
	for a := range old {
		if _, ok := g.addresses[a]; !ok {
			d.countMember(a, -1)
		}
	}
	for s := range g.spreads {
		d.dirty.slots[s] = struct{}{}
	}
}

func newGroup(key groupKey) *group {
	return &group{key: key, tag: key.tag(), g: &lb.Group{ID: key.id}, addresses: map[netip.Addr]struct{}{}, spreads: map[*spread]struct{}{}}
}

// dropGroup forgets a group that has no members, unless a pool still asks for it.
func (d *Dataplane) dropGroup(g *group) {
	if g != nil && len(g.g.Members)+len(g.spreads) == 0 {
		delete(d.groups, g.key)
	}
}

// countServing counts in how many groups of its tenant each member stands, not draining.
func (d *Dataplane) countServing(g *group, n int) {
	for i := range g.g.Members {
		m := &g.g.Members[i]
		if m.Draining {
			continue
		}
		k := tenantMember{g.key.tenant, m.Key()}
		if d.serving[k] += n; d.serving[k] == 0 {
			delete(d.serving, k)
		}
	}
}

// usable says that packets can be sent to a member's address.
func usable(a netip.Addr) bool { return a.IsValid() && !a.Is4In6() && a.Zone() == "" }

func (d *Dataplane) countMember(a netip.Addr, n int) {
	m := d.members[a]
	if m == nil {
		m = &address{at: a}
		d.members[a] = m
	}
	m.users += n
	d.dirty.members[m] = struct{}{}
}

// use counts what needs one of our addresses, and what needs it to be on this host.
func (d *Dataplane) use(a netip.Addr, users, assigners int) {
	v := d.vips[a]
	if v == nil {
		v = &address{at: a}
		d.vips[a] = v
	}
	v.users += users
	v.assigners += assigners
	d.dirty.vips[v] = struct{}{}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// hold has a socket need its address while it is wanted or in the kernel: until its last connection is known of, an
// address must not seem to be somebody else's.
func (d *Dataplane) hold(s *socket) {
	served := s.have != nil && s.have.served()
	users := one(s.want != nil || served)
	assigners := one(s.want != nil && s.want.assign || served && s.have.assign)
	if users != s.users || assigners != s.assigners {
		d.use(s.at.Address, users-s.users, assigners-s.assigners)
		s.users, s.assigners = users, assigners
	}
}

// staleByHealth notes the spreads that other verdicts concern.
func (d *Dataplane) staleByHealth(changes []lb.HealthChange) {
	for _, c := range changes {
		for s := range d.byCheck[c.Probe.Check] {
			if _, ok := s.group.addresses[c.Probe.Address]; ok {
				d.dirty.slots[s] = struct{}{}
			}
		}
	}
}

func (d *Dataplane) planPool(key poolKey, p *lb.Pool) {
	o := d.pools[key]
	if o == nil {
		o = &pool{frontends: map[lb.FrontendID]*frontend{}}
		d.pools[key] = o
	}
	old := o.spread
	o.p = p
	d.aim(o, p)
	o.spread = d.spread(spreadKey{p.Key(key.tenant), p.KeepClient})
	if o.spread != nil {
		o.spread.pools[o] = struct{}{}
		o.spread.pool = p
	}
	if old != nil && old != o.spread {
		d.leaveSpread(old, o)
	}
	for _, f := range o.frontends {
		d.planSocket(f.f.ID.Socket())
	}
}

// aim counts the port of members that see clients; of no pool, none.
func (d *Dataplane) aim(o *pool, p *lb.Pool) {
	if o.target != nil {
		o.target.users--
		d.dirty.targets[o.target] = struct{}{}
		o.target = nil
	}
	if p != nil && p.KeepClient && p.Port != 0 {
		o.target = d.target(p.Port)
		o.target.users++
	}
}

// target is that of a port, to be looked at by the next change.
func (d *Dataplane) target(port uint16) *target {
	t := d.targets[port]
	if t == nil {
		t = &target{port: port}
		d.targets[port] = t
	}
	d.dirty.targets[t] = struct{}{}
	return t
}

func (d *Dataplane) dropPool(key poolKey) {
	o := d.pools[key]
	if o == nil {
		return
	}
	delete(d.pools, key)
	d.aim(o, nil)
	if o.spread != nil {
		d.leaveSpread(o.spread, o)
	}
}

func (d *Dataplane) leaveSpread(s *spread, o *pool) {
	delete(s.pools, o)
	for other := range s.pools {
		s.pool = other.p
		return
	}
	// Nobody uses it. Its connections go on, and its mark with them.
	delete(d.spreads, s.key)
	delete(d.byCheck[s.key.Check], s)
	if len(d.byCheck[s.key.Check]) == 0 {
		delete(d.byCheck, s.key.Check)
	}
	if s.group != nil {
		delete(s.group.spreads, s)
		d.dropGroup(s.group)
	}
	s.want, s.quiet = nil, 0
	delete(d.dirty.slots, s)
	d.dirty.spreads[s] = struct{}{}
}

// spread returns the spread of this key: the one that runs, or that ran once and has connections, or a new one; nil
// if there are too many.
func (d *Dataplane) spread(key spreadKey) *spread {
	if s := d.spreads[key]; s != nil {
		return s
	}
	note := key.note()
	s := d.byNote[note]
	if s == nil {
		m := d.marks.take(key.bits())
		if m == 0 {
			return nil
		}
		s = &spread{mark: m, note: note, pools: map[*pool]struct{}{}}
		d.byMark[m], d.byNote[note] = s, s
	}
	s.key, s.tag = key, key.groupKey().tag()
	d.spreads[key] = s
	g := d.groups[key.groupKey()]
	if g == nil { // A Program without its group is not whole; clients are refused as with no member.
		g = newGroup(key.groupKey())
		d.groups[g.key] = g
	}
	s.group = g
	g.spreads[s] = struct{}{}
	of := d.byCheck[key.Check]
	if of == nil {
		of = map[*spread]struct{}{}
		d.byCheck[key.Check] = of
	}
	of[s] = struct{}{}
	d.dirty.slots[s] = struct{}{}
	return s
}

func (d *Dataplane) planSlots(s *spread) {
	d.dirty.spreads[s] = struct{}{}
	s.want = s.slotsOf(d.health)
}

func (d *Dataplane) planFrontend(f *lb.Frontend) {
	o := d.frontends[f.ID]
	if o == nil {
		o = &frontend{}
		d.frontends[f.ID] = o
	}
	if o.pool != nil {
		delete(o.pool.frontends, f.ID)
	}
	o.f, o.pool = f, d.pools[poolKey{f.ID.Tenant, f.Pool}]
	if o.pool != nil {
		o.pool.frontends[f.ID] = o
	}
	d.planSocket(f.ID.Socket())
}

func (d *Dataplane) dropFrontend(id lb.FrontendID) {
	o := d.frontends[id]
	if o == nil {
		return
	}
	delete(d.frontends, id)
	delete(d.refused, id)
	if o.pool != nil {
		delete(o.pool.frontends, id)
	}
	d.planSocket(id.Socket())
}

func (d *Dataplane) planListener(c lb.ListenerChange) {
	s := d.socket(c.Socket)
	s.owner = lb.FrontendID{}
	if c.New != nil && len(c.New.Frontends) > 0 {
		// Today a socket has one frontend; were there more, the first would be served.
		s.owner = c.New.Frontends[0]
	}
	d.planSocket(c.Socket)
}

func (d *Dataplane) socket(at lb.Socket) *socket {
	s := d.sockets[at]
	if s == nil {
		s = &socket{at: at}
		d.sockets[at] = s
	}
	return s
}

// planSocket works out how a socket is to be served.
func (d *Dataplane) planSocket(at lb.Socket) {
	s := d.socket(at)
	s.want = d.route(s)
	d.hold(s)
	d.dirty.sockets[s] = struct{}{}
}

func (d *Dataplane) route(s *socket) *route {
	f := d.frontends[s.owner]
	if f == nil {
		return nil
	}
	var p *lb.Pool
	if f.pool != nil {
		p = f.pool.p
	}
	if why := impossible(f.f, p); why != "" {
		d.refuse(f.f.ID, reasonInvalid, why+"; mend it, then it is served")
		return nil
	}
	if name := d.closedTo[d.layout.of(s.at.Address)]; name != "" {
		d.refuse(f.f.ID, reasonPending, fmt.Sprintf("this host forwards no packets to targets; the operator of the proxies must set sysctl %s=1 there", name))
		return nil
	}
	if f.pool.spread == nil {
		d.refuse(f.f.ID, reasonPending, "this host has no more room for groups of targets; take some away")
		return nil
	}
	delete(d.refused, f.f.ID)
	r := &route{
		id: f.f.ID, mark: f.pool.spread.mark, tag: f.pool.spread.tag, port: p.Port, hasPort: true,
		comment: frontendComment(f.f.ID), drain: p.DrainTimeout, assign: f.f.Assign,
	}
	if len(f.f.Sources) == 0 {
		r.open = true
	} else {
		r.admitted, r.limited = true, true
		r.sources = sourcesOf(s.at, f.f.Sources)
	}
	return r
}

func (d *Dataplane) refuse(id lb.FrontendID, reason, message string) {
	p := problem(id, "", reason, message)
	if d.refused[id] != p {
		d.log.Info("frontend refused", "tenant", id.Tenant, "loadbalancer", id.LoadBalancer, "socket", id.Socket().String(), "reason", reason, "message", message)
	}
	d.refused[id] = p
}

func (d *Dataplane) problems() []lb.Problem {
	out := make([]lb.Problem, 0, len(d.refused))
	for _, p := range d.refused {
		out = append(out, p)
	}
	slices.SortFunc(out, lb.Problem.Compare)
	return out
}
