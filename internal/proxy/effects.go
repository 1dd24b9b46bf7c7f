package proxy

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lb"
)

// touches says that an object changed of which something is served, though
// what is served is the same: somebody waits for its new generation.
func (l *loop) touches(p *lb.Program) bool {
	for _, c := range l.changes {
		if c.Resource != LoadBalancers {
			continue
		}
		t := p.Tenants[lb.TenantID(c.Key.Namespace)]
		if t == nil {
			continue
		}
		if _, ok := slices.BinarySearchFunc(t.Frontends, c.Key.Name, func(f *lb.Frontend, name string) int { return strings.Compare(f.ID.LoadBalancer, name) }); ok {
			return true
		}
	}
	return false
}

// structural says that more than health differs.
func structural(c *lb.Changes) bool {
	return len(c.Listeners)+len(c.Frontends)+len(c.Pools)+len(c.Groups) > 0
}

// removes says that something that was served is not, or not in that form.
func removes(c *lb.Changes) bool {
	return slices.ContainsFunc(c.Listeners, func(x lb.ListenerChange) bool { return x.Old != nil }) ||
		slices.ContainsFunc(c.Frontends, func(x lb.FrontendChange) bool { return x.Old != nil }) ||
		slices.ContainsFunc(c.Pools, func(x lb.PoolChange) bool { return x.Old != nil }) ||
		slices.ContainsFunc(c.Groups, func(x lb.GroupChange) bool {
			return x.New == nil || slices.ContainsFunc(x.Members, func(m lb.MemberChange) bool { return m.Old != nil })
		})
}
