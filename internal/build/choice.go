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
	// served counts those of them that have pools.
	served int
	// kept: a frontend's last good form needs it.
	kept bool

	group *lb.Group
	check *clusterv1.HealthCheck
	none  bool
}

// selected is what the choice's LoadBalancers need to know of it.
func (c *choice) selected() *selected {
	return &selected{group: groupID(c.key), check: c.check, none: c.none}
}

// resolve selects anew; groups may hold more than the selector selects. It says
// whether the group changed, and whether what the LoadBalancers know did.
func (c *choice) resolve(groups []*targetGroup) (group, known bool) {
	groups = slices.DeleteFunc(groups, func(g *targetGroup) bool { return !c.selector.Matches(labels.Set(g.object.Labels)) })
	slices.SortFunc(groups, func(a, b *targetGroup) int { return strings.Compare(a.object.Name, b.object.Name) })
	var check *clusterv1.HealthCheck
	n := 0
	for _, g := range groups {
		check = cmp.Or(check, g.check)
		n += len(g.members)
	}
	next := &lb.Group{ID: groupID(c.key), Members: make([]lb.Member, 0, n)}
	for _, g := range groups {
		next.Members = append(next.Members, g.members...)
	}
	// A target that stands in several TargetGroups counts as in the first by name.
	slices.SortStableFunc(next.Members, func(a, b lb.Member) int { return a.Key().Compare(b.Key()) })
	next.Members = slices.CompactFunc(next.Members, func(a, b lb.Member) bool { return a.Key() == b.Key() })

	none := len(groups) == 0
	known = c.group == nil || none != c.none || !equalCheck(check, c.check)
	c.check, c.none = check, none
	if !next.Equal(c.group) {
		c.group = next
		return true, known
	}
	return false, known
}
