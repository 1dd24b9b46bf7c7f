package build

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Admission says which targets of one namespace are left out, for its Tenant may not have so many. The zero value leaves out none.
type Admission struct {
	bound  int
	beyond map[string]bool // by countsAs
}

// Admit judges all TargetGroups of a Tenant's namespace, in any order, by the Tenant's spec.quota.targets; tenant is nil for a namespace of
// none. What counts is a UID with its addresses, in however many groups it is. As long as there are no more than the quota allows, all are
// admitted. Else those are that the status.withinQuota of a group lists, however many they are: what is served stays, also when the quota
// is lowered. The others are while there is room, in the order of the groups' age, then name, then of the targets in the group.
func Admit(groups []*v1alpha1.TargetGroup, tenant *v1alpha1.Tenant) Admission {
	if tenant == nil || tenant.Spec.Quota == nil || tenant.Spec.Quota.Targets == nil {
		return Admission{}
	}
	a := Admission{bound: int(*tenant.Spec.Quota.Targets)}
	all := 0
	for _, g := range groups {
		all += len(g.Spec.Targets)
	}
	if all <= a.bound {
		return a
	}
	groups = slices.SortedFunc(slices.Values(groups), func(a, b *v1alpha1.TargetGroup) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	within, later := map[string]bool{}, []string{}
	for _, g := range groups {
		listed := listedIn(g)
		for i := range g.Spec.Targets {
			if key := countsAs(&g.Spec.Targets[i]); listed[key] {
				within[key] = true
			} else {
				later = append(later, key)
			}
		}
	}
	for _, key := range later {
		switch {
		case within[key]:
		case len(within) < a.bound:
			within[key] = true
		default:
			if a.beyond == nil {
				a.beyond = map[string]bool{}
			}
			a.beyond[key] = true
		}
	}
	return a
}

// listedIn are the targets that a group's status lists. All are where a manager saw targets that lists none, of the version before or
// because the namespace was no Tenant's: they are served.
func listedIn(g *v1alpha1.TargetGroup) map[string]bool {
	s := &g.Status
	listed := make(map[string]bool, len(s.WithinQuota))
	for _, key := range s.WithinQuota {
		listed[key] = true
	}
	if saw := s.Members != "" && !strings.HasSuffix(s.Members, "/0"); saw && len(s.WithinQuota) == 0 && s.BeyondQuota == 0 {
		for i := range g.Spec.Targets {
			listed[countsAs(&g.Spec.Targets[i])] = true
		}
	}
	return listed
}

// CountTargets returns how many targets the TargetGroups of a namespace have by the count of spec.quota.targets.
func CountTargets(groups []*v1alpha1.TargetGroup) int {
	seen := map[string]bool{}
	for _, g := range groups {
		for i := range g.Spec.Targets {
			seen[countsAs(&g.Spec.Targets[i])] = true
		}
	}
	return len(seen)
}

// Within returns what the status.withinQuota of a group says: those of its targets that are admitted, sorted, each once.
func (a Admission) Within(g *v1alpha1.TargetGroup) []string {
	var out []string
	for i := range g.Spec.Targets {
		if key := countsAs(&g.Spec.Targets[i]); !a.beyond[key] {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Beyond counts the targets of a group that are left out.
func (a Admission) Beyond(g *v1alpha1.TargetGroup) int {
	n := 0
	for i := range g.Spec.Targets {
		if a.LeavesOut(g, i) {
			n++
		}
	}
	return n
}

// LeavesOut tells whether target i of a group is beyond the quota.
func (a Admission) LeavesOut(g *v1alpha1.TargetGroup, i int) bool {
	return len(a.beyond) > 0 && a.beyond[countsAs(&g.Spec.Targets[i])]
}

// equal says that both leave out the same, and say the same of it.
func (a Admission) equal(o Admission) bool {
	return maps.Equal(a.beyond, o.beyond) && (a.bound == o.bound || len(a.beyond) == 0)
}

// concerns says that two verdicts differ on a group, or in what they say of it.
func (a Admission) concerns(o Admission, g *v1alpha1.TargetGroup) bool {
	for i := range g.Spec.Targets {
		if was, is := a.LeavesOut(g, i), o.LeavesOut(g, i); was != is || is && a.bound != o.bound {
			return true
		}
	}
	return false
}

// countsAs is what a target counts as: its UID with the addresses that are sent to.
func countsAs(t *v1alpha1.Target) string {
	four, six, name := "", "", ""
	for _, s := range t.Addresses {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			name = cmp.Or(name, strings.ToLower(s))
		case a.Zone() != "":
		case a.Unmap().Is4():
			four = cmp.Or(four, a.Unmap().String())
		default:
			six = cmp.Or(six, a.String())
		}
	}
	if four+six != "" {
		name = ""
	}
	return t.UID + "/" + strings.Trim(four+","+six+","+name, ",")
}
