package builtin

import (
	"net/netip"

	"fairlead.dev/fairlead/internal/lb"
)

type groupKey struct {
	tenant lb.TenantID
	id     lb.GroupID
}

// group is one lb.Group; all of it under Dataplane.mu but view's contents, which never change.
type group struct {
	groupKey
	view *groupView
	// members holds those of view, and those gone from it that have open connections.
	members map[lb.MemberKey]*member
	tables  map[*table]struct{}
}

// groupView is an lb.Group and, in its order, what its members are here.
type groupView struct {
	*lb.Group
	members []*member
}

func (v *groupView) hasAny(addresses map[netip.Addr]struct{}) bool {
	for i := range v.Members {
		if _, ok := addresses[v.Members[i].Address]; ok {
			return true
		}
	}
	return false
}

func (d *Dataplane) group(k groupKey) *group {
	g := d.groups[k]
	if g == nil {
		g = &group{
			groupKey: k,
			view:     &groupView{Group: &lb.Group{ID: k.id}},
			members:  map[lb.MemberKey]*member{},
			tables:   map[*table]struct{}{},
		}
		d.groups[k] = g
	}
	return g
}

// setGroup gives g its members; nil: none. Those that serve take connections
// when it returns; settle, called once the tables are published, stops the others.
func (d *Dataplane) setGroup(g *group, next *lb.Group) (settle func()) {
	if next == nil {
		next = &lb.Group{ID: g.id}
	}
	view := &groupView{Group: next, members: make([]*member, len(next.Members))}
	for i := range next.Members {
		n := &next.Members[i]
		m := g.members[n.Key()]
		if m == nil {
			m = d.newMember(g, n)
		}
		if !n.Draining {
			m.serve()
		}
		view.members[i] = m
	}
	old := g.view
	g.view = view
	return func() {
		for i := range next.Members {
			if n := &next.Members[i]; n.Draining {
				view.members[i].removed.Store(false)
				view.members[i].drain(n.DrainFor)
			}
		}
		d.sweep(g, old)
	}
}

// sweep drains the members of g that have left it, and forgets those without connections.
func (d *Dataplane) sweep(g *group, old *groupView) {
	drainFor := make(map[*member]*lb.Member, len(old.members))
	for i, m := range old.members {
		drainFor[m] = &old.Members[i]
	}
	stay := make(map[*member]struct{}, len(g.view.members))
	for _, m := range g.view.members {
		stay[m] = struct{}{}
	}
	for k, m := range g.members {
		if _, ok := stay[m]; ok {
			continue
		}
		if was := drainFor[m]; was != nil {
			m.removed.Store(true)
			m.drain(was.DrainFor)
		}
		if m.open.Load() == 0 {
			delete(g.members, k)
			d.dropTarget(m.target)
		}
	}
}

func (d *Dataplane) newMember(g *group, n *lb.Member) *member {
	k := targetKey{g.tenant, n.Key()}
	t := d.targets[k]
	if t == nil {
		t = &target{targetKey: k, metrics: d.metrics.target(g.tenant, n.Name)}
		d.targets[k] = t
	}
	t.refs++
	t.serving.Add(1)
	m := &member{target: t, leaving: d.leaving}
	g.members[n.Key()] = m
	return m
}

func (d *Dataplane) dropTarget(t *target) {
	if t.refs--; t.refs == 0 {
		delete(d.targets, t.targetKey)
		t.metrics.release()
	}
}
