package node

import (
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// unhealthy is the state of a member, in TargetGroup.status, that fails its check.
const unhealthy = "unhealthy"

// Unwell says of TargetGroups that not one of their members passes its check, and why; empty: one may. since is when the
// last of them began to fail, by the hub's clock.
func Unwell(groups []*v1alpha1.TargetGroup) (why string, since time.Time) {
	var sick []string
	for _, g := range groups {
		if len(g.Spec.Targets) > len(g.Status.Targets) {
			return "", time.Time{} // those that status doesn't name are well
		}
		for _, t := range g.Status.Targets {
			if t.State != unhealthy {
				continue
			}
			sick = append(sick, strings.TrimSuffix(strings.TrimSpace(t.Name+": "+t.Message), ":"))
			if t.Since != nil && t.Since.After(since) {
				since = t.Since.Time
			}
		}
	}
	switch {
	case len(sick) == 0:
		return "", time.Time{}
	case len(sick) > 2:
		sick = append(sick[:2], fmt.Sprintf("and %d more", len(sick)-2))
	}
	return "no target passes its health check (" + strings.Join(sick, "; ") + ")", since
}
