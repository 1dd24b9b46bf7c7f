package member

import (
	"cmp"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// MaxTargets is how many targets a TargetGroup holds.
const MaxTargets = 100

// Resolved is a Machine or Node as it is to stand in a TargetGroup.
type Resolved struct {
	Name, UID, Zone string
	// Addresses that may be used, the best first; none: those that it had are kept, so that a provider that forgets them for a
	// moment cuts nobody off.
	Addresses []string
	// State is a Decision's Want; Absent: it is in no group.
	State v1alpha1.TargetState
	// Ready: false where it is known not to be; nil: nobody says so.
	Ready *bool
}

// Place returns what a LoadBalancer's TargetGroups are to hold, given what they hold now. A target stays in its group, a new
// one goes to the first that has room; so a change of one target changes one group. There is one group at least, and those
// behind the last that holds something are left out. Targets are sorted by name; what else a group's target says, as its
// weight, is kept. Neither argument is changed.
func Place(groups [][]v1alpha1.Target, targets []Resolved) [][]v1alpha1.Target {
	at := map[string]int{}
	had := map[string]v1alpha1.Target{}
	for i, g := range groups {
		for _, t := range g {
			if _, twice := at[t.UID]; !twice {
				at[t.UID], had[t.UID] = i, t
			}
		}
	}
	out := make([][]v1alpha1.Target, max(len(groups), 1))
	var fresh []v1alpha1.Target
	for _, r := range targets {
		if r.State == Absent {
			continue
		}
		t := had[r.UID]
		t.Name, t.UID, t.Zone, t.State, t.Ready = r.Name, r.UID, r.Zone, r.State, r.Ready
		if len(r.Addresses) > 0 {
			t.Addresses = r.Addresses
		}
		if i, stays := at[r.UID]; stays && len(out[i]) < MaxTargets {
			out[i] = append(out[i], t)
		} else {
			fresh = append(fresh, t)
		}
	}
	byName := func(a, b v1alpha1.Target) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID)) }
	slices.SortFunc(fresh, byName)
	for _, t := range fresh {
		i := slices.IndexFunc(out, func(g []v1alpha1.Target) bool { return len(g) < MaxTargets })
		if i < 0 {
			i, out = len(out), append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	for len(out) > 1 && len(out[len(out)-1]) == 0 {
		out = out[:len(out)-1]
	}
	for _, g := range out {
		slices.SortFunc(g, byName)
	}
	return out
}
