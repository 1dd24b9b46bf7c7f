package builtin

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// Apply implements dataplane.Dataplane: what is new first, then what takes its place, then what goes.
func (d *Dataplane) Apply(ctx context.Context, next *lb.Program, changes lb.Changes) (dataplane.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return dataplane.Outcome{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return dataplane.Outcome{}, errClosed
	}
	d.health = next.Health
	stale, settle := d.applyGroups(changes.Groups)
	d.staleByHealth(changes.Health, stale)
	for t := range stale {
		d.refresh(t)
	}
	for _, s := range settle {
		s()
	}
	for _, c := range changes.Pools {
		if c.New != nil {
			d.setPool(c)
		}
	}
	for _, c := range changes.Listeners {
		if c.New == nil {
			d.closeListener(c.Socket)
		}
	}
	for _, c := range changes.Frontends {
		if c.New != nil {
			d.setFrontend(c.New)
		}
	}
	opened := d.applyListeners(changes.Listeners)
	for _, c := range changes.Frontends {
		if f := d.frontends[c.ID]; c.New == nil && f != nil {
			d.dropFrontend(f)
		}
	}
	for _, c := range changes.Pools {
		if c.New == nil {
			d.dropPool(poolKey{c.Tenant, c.ID})
		}
	}
	for _, c := range changes.Groups {
		if c.New == nil {
			d.ended[groupKey{c.Tenant, c.ID}] = struct{}{}
		}
	}
	d.forgetGroups()
	d.assigned.settle()
	return d.outcome(changes, opened), nil
}

func (d *Dataplane) applyGroups(changes []lb.GroupChange) (stale map[*table]struct{}, settle []func()) {
	stale = map[*table]struct{}{}
	for _, c := range changes {
		g := d.group(groupKey{c.Tenant, c.ID})
		settle = append(settle, d.setGroup(g, c.New))
		for t := range g.tables {
			stale[t] = struct{}{}
		}
	}
	return stale, settle
}

// staleByHealth adds to stale the tables that a change of verdicts concerns.
func (d *Dataplane) staleByHealth(changes []lb.HealthChange, stale map[*table]struct{}) {
	addresses := map[lb.Check]map[netip.Addr]struct{}{}
	for _, c := range changes {
		of := addresses[c.Probe.Check]
		if of == nil {
			of = map[netip.Addr]struct{}{}
			addresses[c.Probe.Check] = of
		}
		of[c.Probe.Address] = struct{}{}
	}
	for check, of := range addresses {
		for t := range d.byCheck[check] {
			if t.group.view.hasAny(of) {
				stale[t] = struct{}{}
			}
		}
	}
}

// setPool makes or changes a pool. Where its group or port differs another pool takes its place, and its
// frontends start anew with it.
func (d *Dataplane) setPool(c lb.PoolChange) {
	key := poolKey{c.Tenant, c.ID}
	old := d.pools[key]
	if old != nil {
		was := old.config.Load()
		if was.Group == c.New.Group && was.Port == c.New.Port {
			old.config.Store(&poolConfig{c.New, d.table(c.Tenant, c.New)})
			d.dropTable(was.table)
			if was.DrainTimeout != c.New.DrainTimeout {
				for _, m := range d.groups[groupKey{c.Tenant, c.New.Group}].members {
					m.rearm()
				}
			}
			return
		}
	}
	p := d.newPool(key, c.New)
	if old == nil {
		return
	}
	for f := range old.frontends {
		d.replace(f, f.config.Load().Frontend, p)
	}
	d.dropTable(old.config.Load().table)
}

func (d *Dataplane) newPool(key poolKey, p *lb.Pool) *pool {
	n := &pool{poolKey: key, frontends: map[*frontend]struct{}{}}
	n.config.Store(&poolConfig{p, d.table(key.tenant, p)})
	d.pools[key] = n
	return n
}

func (d *Dataplane) dropPool(key poolKey) {
	p := d.pools[key]
	switch {
	case p == nil:
	case len(p.frontends) > 0: // A Program without its pool is not whole; its frontends follow the pool that will come.
		d.setPool(lb.PoolChange{Tenant: key.tenant, ID: key.id, New: &lb.Pool{ID: key.id}})
	default:
		delete(d.pools, key)
		d.dropTable(p.config.Load().table)
	}
}

// forgetGroups lets go of groups that have left the Program, once they have no connections.
func (d *Dataplane) forgetGroups() {
	for key := range d.ended {
		g := d.groups[key]
		switch {
		case g == nil:
			delete(d.ended, key)
		case len(g.tables) > 0 || len(g.view.members) > 0: // It is back.
			delete(d.ended, key)
		default:
			d.sweep(g, g.view)
			if len(g.members) == 0 {
				delete(d.groups, key)
				delete(d.ended, key)
			}
		}
	}
}

func (d *Dataplane) setFrontend(next *lb.Frontend) {
	old, key := d.frontends[next.ID], poolKey{next.ID.Tenant, next.Pool}
	p := d.pools[key]
	if p == nil { // A Program without its pool is not whole; clients are refused as with no member.
		p = d.newPool(key, &lb.Pool{ID: next.Pool})
	}
	switch {
	case old == nil:
		d.frontends[next.ID] = d.newFrontend(next, p)
		d.leaving.serve(next.ID)
	case old.config.Load().pool == p:
		old.config.Store(&frontendConfig{next, p})
		d.assign(old)
	default:
		d.replace(old, next, p)
	}
}

// replace has another frontend take old's place, at its listener too. old's
// connections go on for good if they go where p's go, else for their pool's DrainTimeout.
func (d *Dataplane) replace(old *frontend, next *lb.Frontend, p *pool) {
	was, is := old.config.Load().pool, p.config.Load()
	if c := was.config.Load(); c.Group == is.Group && c.Port == is.Port {
		delete(was.frontends, old)
		p.frontends[old] = struct{}{}
		old.config.Store(&frontendConfig{next, p})
		d.assign(old)
		return
	}
	f := d.newFrontend(next, p)
	d.frontends[next.ID] = f
	if l := d.listeners[next.ID.Socket()]; l != nil {
		l.front.CompareAndSwap(old, f)
	}
	d.retire(old)
}

func (d *Dataplane) dropFrontend(f *frontend) {
	delete(d.frontends, f.id)
	d.leaving.unserve(f.id)
	if l := d.listeners[f.id.Socket()]; l != nil {
		l.front.CompareAndSwap(f, nil)
	}
	d.retire(f)
}

func (d *Dataplane) retire(f *frontend) {
	p := f.config.Load().pool
	delete(p.frontends, f)
	f.retire(p.config.Load().DrainTimeout)
}

func (d *Dataplane) closeListener(s lb.Socket) {
	if l := d.listeners[s]; l != nil {
		l.front.Store(nil)
		l.close()
		if l.udp != nil && !l.udp.over() {
			d.ending[s] = l.udp
		}
		delete(d.listeners, s)
		delete(d.unbound, l)
	}
}

// applyListeners opens what is new and tries again what could not be opened; it returns how many it opened.
func (d *Dataplane) applyListeners(changes []lb.ListenerChange) (opened int) {
	for s, u := range d.ending {
		if u.over() {
			delete(d.ending, s)
		}
	}
	if d.yielded {
		return 0
	}
	for _, c := range changes {
		if c.New == nil {
			continue
		}
		l := d.listeners[c.Socket]
		if l == nil {
			l = newListener(c.Socket)
			d.listeners[c.Socket] = l
			d.unbound[l] = lb.Problem{}
		}
		// Today a socket has one frontend; were there more, the first would be served.
		l.front.Store(d.frontends[c.New.Frontends[0]])
	}
	for l := range d.unbound {
		f := l.front.Load()
		if f == nil {
			continue
		}
		var p lb.Problem
		var err error
		if f.config.Load().Assign {
			if err = d.assigned.ensure(d.o.bindAddress(f.id.Address)); err != nil {
				p = d.o.assignProblem(f.id, err)
			}
		}
		if err == nil {
			if err = d.open(l); err != nil {
				p = d.o.bindProblem(f.id, err)
			}
		}
		if err == nil {
			delete(d.unbound, l)
			opened++
			continue
		}
		if d.unbound[l] != p {
			d.log.Info("frontend refused", "tenant", f.id.Tenant, "loadbalancer", f.id.LoadBalancer, "socket", l.socket.String(), "reason", p.Reason, "err", err)
		}
		d.unbound[l] = p
	}
	return opened
}

func (d *Dataplane) outcome(c lb.Changes, opened int) dataplane.Outcome {
	o := dataplane.Outcome{How: dataplane.None}
	if !c.Empty() || opened > 0 {
		o.How, o.Because = dataplane.Hot, cmp.Or(c.String(), fmt.Sprintf("%d listeners that could not be opened before", opened))
	}
	for _, p := range d.unbound {
		if p.Reason != "" {
			o.Refused = append(o.Refused, p)
		}
	}
	slices.SortFunc(o.Refused, lb.Problem.Compare)
	return o
}
