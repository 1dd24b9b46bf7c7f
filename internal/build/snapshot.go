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
	groups    bool
	problems  bool
}

type frontendDelta struct {
	loadBalancer string
	next         []*lb.Frontend
}

type poolDelta struct{ old, next []*lb.Pool }

// move counts a LoadBalancer's way from one choice to another, with or without pools.
func (d *delta) move(n *namespace, from, to *choice, name string, had, has bool) {
	if from != nil {
		if had {
			from.served--
		}
		if from != to {
			delete(from.users, name)
		}
	}
	if to != nil {
		to.users[name] = true
		if has {
			to.served++
		}
	}
	if from != nil && from != to {
		n.forget(from)
	}
	if from != to || had != has {
		d.groups = true
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
	if d.groups {
		if g := n.groups(func(c *choice) bool { return c.served > 0 }); !maps.Equal(g, old.Groups) {
			next.Groups, changed = g, true
		}
	}
	if d.problems || n.problemsChanged {
		n.problemsChanged = false
		problems, refused := n.problems()
		if !slices.Equal(problems, old.Problems) || !slices.Equal(refused, old.Refused) {
			next.Problems, next.Refused, changed = problems, refused, true
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

// groups of the choices that are needed.
func (n *namespace) groups(needed func(*choice) bool) map[lb.GroupID]*lb.Group {
	out := map[lb.GroupID]*lb.Group{}
	for _, c := range n.choices {
		if needed(c) {
			out[c.group.ID] = c.group
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
