package node

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

const (
	namePrefix = "nodes-"
	// groupSize is the most targets that a TargetGroup takes.
	groupSize = 100
	// HealthPort and HealthPath are where kube-proxy tells its own health.
	HealthPort = 10256
	HealthPath = "/healthz"
)

// GroupName of the group with that index.
func GroupName(index int) string { return fmt.Sprintf("%s%d", namePrefix, index) }

// Index of the group with that name; false if no group of ours is named so.
func Index(name string) (int, bool) {
	text, ok := strings.CutPrefix(name, namePrefix)
	i, err := strconv.Atoi(text)
	return i, ok && err == nil && i >= 0 && GroupName(i) == name
}

// Labels of each group.
func Labels() map[string]string {
	return map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}
}

// Place puts targets into groups, by the group's index. A target stays in the group that has it;
// new ones fill the holes of the lowest groups first. Group 0 is always there, so that
// what selects the nodes finds a group; others go when they are empty. Targets are sorted by name. All groups are checked in one way.
func Place(have map[int][]v1alpha1.Target, targets []v1alpha1.Target, way Way) map[int]v1alpha1.TargetGroupSpec {
	at := map[string]int{}
	for _, index := range slices.Sorted(maps.Keys(have)) {
		for _, t := range have[index] {
			if _, twice := at[t.Name]; !twice {
				at[t.Name] = index
			}
		}
	}
	placed := map[int][]v1alpha1.Target{0: nil}
	var fresh []v1alpha1.Target
	for _, t := range targets {
		if index, ok := at[t.Name]; ok && len(placed[index]) < groupSize {
			placed[index] = append(placed[index], t)
		} else {
			fresh = append(fresh, t)
		}
	}
	slices.SortFunc(fresh, byName)
	index := 0
	for _, t := range fresh {
		for len(placed[index]) >= groupSize {
			index++
		}
		placed[index] = append(placed[index], t)
	}
	out := map[int]v1alpha1.TargetGroupSpec{}
	for index, targets := range placed {
		slices.SortFunc(targets, byName)
		out[index] = v1alpha1.TargetGroupSpec{
			HealthCheck: way.check(),
			Targets:     targets,
		}
	}
	return out
}

func byName(a, b v1alpha1.Target) int { return cmp.Compare(a.Name, b.Name) }
