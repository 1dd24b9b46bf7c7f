package cli

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	rules "fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/meta"
)

// machinesRungs says what the manager says of the Machines or Nodes that are l's targets; of other targets there is none.
func machinesRungs(l *clusterv1.LoadBalancer) []Rung {
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionTargetsFollowed)
	if c == nil {
		return nil
	}
	r := Rung{Name: "machines"}
	if build.KindOf(l) == rules.Nodes {
		r.Name = "nodes"
	}
	r.fromCondition(c, Warning) // they stay as they are, and serve
	all := 0
	for i := range l.Status.Targets {
		if rules.State(l.Status.Targets[i].State) != rules.Removed {
			all++
		}
	}
	active := fmt.Sprintf("%d of %d active", len(l.Status.ActiveTargets), all)
	if r.State == OK {
		r.Reason, r.Message, r.Since = "", active, nil
	} else {
		r.Message = active + ". " + strings.TrimSuffix(c.Message, ".") // which says what to do
	}
	for i := range l.Status.Targets {
		t := &l.Status.Targets[i]
		if state := stateOfMachine(t); state != OK {
			r.Evidence = append(r.Evidence, Evidence{State: state, Text: machineText(t), Since: t.Since})
			if r.State == OK && state != Skipped {
				r.State = Warning
			}
		}
	}
	slices.SortStableFunc(r.Evidence, func(a, b Evidence) int { return rank(a.State) - rank(b.State) })
	return []Rung{r}
}

// stateOfMachine is OK for one that takes connections, and Skipped for one that is to take none.
func stateOfMachine(t *clusterv1.TargetStatus) State {
	switch rules.State(t.State) {
	case rules.Active:
		return OK
	case rules.Unhealthy:
		return Broken
	case rules.Disabled, rules.Removed:
		return Skipped
	}
	return Waiting
}

func machineText(t *clusterv1.TargetStatus) string {
	text := strings.TrimSpace(t.Name+" "+t.Address) + " " + t.State
	if t.Reason != "" {
		text += ", " + t.Reason
	}
	if t.Message != "" {
		text += ": " + strings.TrimSuffix(t.Message, ".")
	}
	return text
}
