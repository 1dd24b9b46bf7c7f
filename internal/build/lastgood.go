package build

import (
	"maps"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

// finish makes the Snapshot of base: what the data plane cannot express keeps
// its last good form, or is left out where it has none.
func (n *namespace) finish(opts Options) {
	if n.snapshot == n.base {
		return // base has not changed since it was checked
	}
	var found []lb.Problem
	if n.base != nil && opts.Check != nil {
		found = opts.Check(n.base)
	}
	if len(found) == 0 {
		n.snapshot = n.base
		n.keep(nil)
		return
	}
	next := *n.base
	next.Refused = slices.Concat(n.base.Refused, found)
	slices.SortFunc(next.Refused, lb.Problem.Compare)
	refusals := refusalsByName(found)
	if len(refusals) == 0 { // all is served, but for something
		n.snapshot = reuseSnapshot(n.snapshot, &next)
		n.keep(nil)
		return
	}
	keep := map[string]*choice{}
	next.Frontends, next.Pools, next.Groups = nil, map[lb.PoolID]*lb.Pool{}, map[lb.GroupID]*lb.Group{}
	for _, f := range n.base.Frontends {
		from := n.base
		if refuses(refusals[f.ID.LoadBalancer], f.ID) {
			if from = lastGood(opts.LastGood, f.ID); from == nil {
				continue
			}
			at, _ := findFrontend(from, f.ID)
			f = from.Frontends[at]
		}
		p := from.Pools[f.Pool]
		c, family := n.chosenBy(p)
		if c == nil {
			continue
		}
		keep[c.key] = c
		next.Frontends = append(next.Frontends, f)
		next.Pools[p.ID] = p
		next.Groups[p.Group] = c.groups[family]
	}
	n.snapshot = reuseSnapshot(n.snapshot, &next)
	n.keep(keep)
}

// keep holds the choices that the snapshot needs, and lets the former ones go.
func (n *namespace) keep(keep map[string]*choice) {
	for key, c := range n.kept {
		if keep[key] == nil {
			c.kept = false
			n.forget(c)
		}
	}
	for _, c := range keep {
		c.kept = true
	}
	n.kept = keep
}

// refusalsByName are the Problems that refuse frontends, by LoadBalancer.
func refusalsByName(problems []lb.Problem) map[string][]lb.Problem {
	var out map[string][]lb.Problem
	for _, p := range problems {
		if p.Effect != lb.Refused || p.Object.Kind != lb.KindLoadBalancer {
			continue
		}
		if out == nil {
			out = map[string][]lb.Problem{}
		}
		out[p.Object.Name] = append(out[p.Object.Name], p)
	}
	return out
}

// refuses says that one of its LoadBalancer's refusals is for the frontend.
func refuses(refusals []lb.Problem, id lb.FrontendID) bool {
	return slices.ContainsFunc(refusals, func(p lb.Problem) bool {
		o := p.Object
		return o.Namespace == string(id.Tenant) && (o.Port == 0 || o.Port == id.Port) && (o.Protocol == "" || o.Protocol == id.Protocol) &&
			(!o.Address.IsValid() || o.Address == id.Address)
	})
}

// lastGood is the Snapshot that has a frontend's last good form with its pool; nil if there is none.
func lastGood(p *lb.Program, id lb.FrontendID) *lb.Snapshot {
	if p == nil {
		return nil
	}
	s := p.Tenants[id.Tenant]
	if s == nil {
		return nil
	}
	at, ok := findFrontend(s, id)
	if !ok || s.Pools[s.Frontends[at].Pool] == nil {
		return nil
	}
	return s
}

func findFrontend(s *lb.Snapshot, id lb.FrontendID) (int, bool) {
	return slices.BinarySearchFunc(s.Frontends, id, func(f *lb.Frontend, id lb.FrontendID) int { return f.ID.Compare(id) })
}

// chosenBy is the choice that a pool sends to, with today's members, and their family; nil if its Group is none that was built here.
func (n *namespace) chosenBy(p *lb.Pool) (*choice, family) {
	f, key, ok := parseGroupID(p.Group)
	if !ok {
		return nil, f
	}
	if c := n.choices[key]; c != nil {
		return c, f
	}
	s, err := parseSelectionKey(key)
	if err != nil || selectionKey(s) != key {
		return nil, f
	}
	return n.choose(s), f
}

// reuseSnapshot is old if it serves and says the same.
func reuseSnapshot(old, next *lb.Snapshot) *lb.Snapshot {
	if len(next.Frontends)+len(next.Problems)+len(next.Refused) == 0 {
		return nil
	}
	if old != nil && slices.Equal(old.Frontends, next.Frontends) && maps.Equal(old.Pools, next.Pools) && maps.Equal(old.Groups, next.Groups) &&
		slices.Equal(old.Problems, next.Problems) && slices.Equal(old.Refused, next.Refused) && slices.Equal(old.Absent, next.Absent) {
		return old
	}
	return next
}
