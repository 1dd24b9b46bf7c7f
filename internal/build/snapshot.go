package build

import (
	"maps"
	"slices"
	"sort"

	"fairlead.dev/fairlead/internal/lb"
)

// delta is what changed of a namespace since its last Snapshot.
type delta struct {
	// frontends by LoadBalancer, sorted by its name.
	frontends []frontendDelta
	pools     []poolDelta
	// groups are the choices of which a Group changed, or came into use or out of it.
	groups   []*choice
	problems bool
}

type frontendDelta struct {
	loadBalancer string
	next         []*lb.Frontend
}

type poolDelta struct{ old, next []*lb.Pool }

// move counts a LoadBalancer's way from one choice to another, with or without pools of each family.
func (d *delta) move(n *namespace, from, to *choice, name string, had, has byFamily[bool]) {
	if from == to && had == has {
		return
	}
	if from != nil {
		d.groups = append(d.groups, from)
	}
	if to != nil {
		to.users[name] = true
		d.groups = append(d.groups, to)
	}
	for f := range families {
		if from != nil && had[f] {
			from.served[f]--
		}
		if to != nil && has[f] {
			to.served[f]++
		}
	}
	if from != nil && from != to {
		delete(from.users, name)
		n.forget(from)
	}
}

// rebuild makes base anew where something changed in it.
func (n *namespace) rebuild(d delta) {
	old := n.base
	if old == nil {
		old = &lb.Snapshot{}
	}
	next := *old
	if len(d.frontends) > 0 {
		next.Frontends = spliceFrontends(old.Frontends, d.frontends)
	}
	if len(d.pools) > 0 {
		next.Pools = maps.Clone(old.Pools)
		if next.Pools == nil {
			next.Pools = map[lb.PoolID]*lb.Pool{}
		}
		for _, p := range d.pools {
			for _, x := range p.old {
				delete(next.Pools, x.ID)
			}
			for _, x := range p.next {
				next.Pools[x.ID] = x
			}
		}
	}
	changed := len(d.frontends)+len(d.pools) > 0
	if g := patchGroups(old.Groups, d.groups); g != nil {
		next.Groups, changed = g, true
	}
	if d.problems || n.problemsChanged {
		n.problemsChanged = false
		problems, refused := n.problems()
		if !slices.Equal(problems, old.Problems) || !slices.Equal(refused, old.Refused) {
			next.Problems, next.Refused, changed = problems, refused, true
		}
	}
	if len(n.named)+len(old.Absent) > 0 {
		if absent := n.absent(); !slices.Equal(absent, old.Absent) {
			next.Absent, changed = absent, true
		}
	}
	switch {
	case len(next.Frontends)+len(next.Problems)+len(next.Refused) == 0:
		n.base = nil
	case changed:
		n.base = &next
	}
}

// spliceFrontends replaces the frontends of some LoadBalancers.
func spliceFrontends(old []*lb.Frontend, ds []frontendDelta) []*lb.Frontend {
	more := 0
	for _, d := range ds {
		more += len(d.next)
	}
	out := make([]*lb.Frontend, 0, len(old)+more)
	for _, d := range ds {
		from := sort.Search(len(old), func(i int) bool { return old[i].ID.LoadBalancer >= d.loadBalancer })
		out = append(append(out, old[:from]...), d.next...)
		old = old[from:]
		for len(old) > 0 && old[0].ID.LoadBalancer == d.loadBalancer {
			old = old[1:]
		}
	}
	return append(out, old...)
}

// patchGroups is old with the choices as they are now, which are there while they are served; nil: it is the same.
func patchGroups(old map[lb.GroupID]*lb.Group, changed []*choice) map[lb.GroupID]*lb.Group {
	var out map[lb.GroupID]*lb.Group
	for _, c := range changed {
		for f, g := range c.groups {
			id, now := g.ID, g
			if c.served[f] == 0 {
				now = nil
			}
			if old[id] == now && out == nil {
				continue
			}
			if out == nil {
				if out = maps.Clone(old); out == nil {
					out = map[lb.GroupID]*lb.Group{}
				}
			}
			if now == nil {
				delete(out, id)
			} else {
				out[id] = now
			}
		}
	}
	return out
}

// problems of all objects of the namespace.
func (n *namespace) problems() (problems, refused []lb.Problem) {
	for _, l := range n.loadBalancers {
		problems = append(problems, l.problems...)
		refused = append(refused, l.refused...)
	}
	for _, g := range n.targetGroups {
		problems = append(problems, g.problems...)
	}
	slices.SortFunc(problems, lb.Problem.Compare)
	slices.SortFunc(refused, lb.Problem.Compare)
	return problems, refused
}
