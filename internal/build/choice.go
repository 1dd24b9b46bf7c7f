package build

import (
	"cmp"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/labels"
)

// choice is one selector of a namespace with what it selects, shared by all
// LoadBalancers that have it.
type choice struct {
	key      string
	selector labels.Selector
	// pair is a label that the selector demands, or "".
	pair string
	// users are the LoadBalancers, by name, that have the selector.
	users map[string]bool
	// served counts those of them that have pools of a family.
	served byFamily[int]
	// kept: a frontend's last good form needs it.
	kept bool

	groups byFamily[*lb.Group]
	check  *clusterv1.HealthCheck
	none   bool
}

// selected is what the choice's LoadBalancers need to know of it.
func (c *choice) selected() *selected {
	return &selected{key: c.key, check: c.check, none: c.none}
}

// resolve selects anew; groups may hold more than the selector selects. It says
// whether a Group changed, and whether what the LoadBalancers know did.
func (c *choice) resolve(groups []*targetGroup) (group, known bool) {
	groups = slices.DeleteFunc(groups, func(g *targetGroup) bool { return !c.selector.Matches(labels.Set(g.object.Labels)) })
	slices.SortFunc(groups, func(a, b *targetGroup) int { return strings.Compare(a.object.Name, b.object.Name) })
	var check *clusterv1.HealthCheck
	for _, g := range groups {
		check = cmp.Or(check, g.check)
	}
	none := len(groups) == 0
	known = c.groups[ipv4] == nil || none != c.none || !equalCheck(check, c.check)
	c.check, c.none = check, none
	for f := range families {
		if next := union(groupID(f, c.key), groups, f); !next.Equal(c.groups[f]) {
			c.groups[f], group = next, true
		}
	}
	return group, known
}

// union holds the members of one family. A target that stands in several TargetGroups counts as in the first of them.
func union(id lb.GroupID, groups []*targetGroup, f family) *lb.Group {
	n := 0
	for _, g := range groups {
		n += len(g.members[f])
	}
	out := &lb.Group{ID: id, Members: make([]lb.Member, 0, n)}
	for _, g := range groups {
		out.Members = append(out.Members, g.members[f]...)
	}
	slices.SortStableFunc(out.Members, func(a, b lb.Member) int { return a.Key().Compare(b.Key()) })
	out.Members = slices.CompactFunc(out.Members, func(a, b lb.Member) bool { return a.Key() == b.Key() })
	return out
}
