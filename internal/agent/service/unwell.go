package service

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unhealthy is the state of a member, in TargetGroup.status, that fails its check.
const unhealthy = "unhealthy"

// Unwell says of TargetGroups that not one of their members passes its check, and why; empty: one may.
func Unwell(groups []*v1alpha1.TargetGroup) string {
	var sick []string
	for _, g := range groups {
		if len(g.Spec.Targets) > len(g.Status.Targets) {
			return "" // those that status doesn't name are well
		}
		for _, t := range g.Status.Targets {
			if t.State == unhealthy {
				sick = append(sick, strings.TrimSuffix(strings.TrimSpace(t.Name+": "+t.Message), ":"))
			}
		}
	}
	switch {
	case len(sick) == 0:
		return ""
	case len(sick) > 2:
		sick = append(sick[:2], fmt.Sprintf("and %d more", len(sick)-2))
	}
	return "no target passes its health check (" + strings.Join(sick, "; ") + ")"
}

// ButUnwell is what is said of a Service that is served as it stands, but at whose address nobody may answer.
func ButUnwell(v Verdict, why string) Verdict {
	return verdict(v.Status, v1alpha1.ReasonMembersUnhealthy, v.Message+", but "+why+": see to the targets, or mend the check")
}

// SaysUnwell tells whether a Service says so already.
func SaysUnwell(s *v1.Service) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonMembersUnhealthy
}
