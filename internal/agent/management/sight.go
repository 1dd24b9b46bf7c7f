package management

import (
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/meta"
)

// By is who speaks of members here, as messages name it.
const By = "the hub"

// States of targets in a TargetGroup's status.
const (
	unhealthy = "unhealthy"
	isDrained = "drained"
)

// observed says that a TargetGroup's status speaks of its present generation.
func observed(g *v1alpha1.TargetGroup) bool {
	c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.ObservedGeneration == g.Generation
}

// said is what a TargetGroup's status says of a target; nil: it is plainly active.
func said(g *v1alpha1.TargetGroup, uid string) *v1alpha1.MemberStatus {
	i := slices.IndexFunc(g.Status.Targets, func(m v1alpha1.MemberStatus) bool { return m.UID == uid })
	if i < 0 {
		return nil
	}
	return &g.Status.Targets[i]
}

// drained says that each proxy that may send to a target of the hub's has said that it has stopped.
func drained(g *v1alpha1.TargetGroup, uid string) bool {
	m := said(g, uid)
	return observed(g) && m != nil && m.State == isDrained
}

// See is what the hub says of the target at a place of a TargetGroup here. hub is what mirrors that, nil if nothing does; since is
// the generation from which on the target stands here as it does now; unproven is why the hub's word that a target is drained is no
// proof, "": it is one.
//
// The hub may be seen as it was: before a target served once more, say, and when it was drained. What was mirrored from an earlier
// generation than since is no word on this one.
func See(local *v1alpha1.TargetGroup, at int, hub *v1alpha1.TargetGroup, since int64, unproven string) member.Sight {
	s := member.Sight{By: By}
	t := &local.Spec.Targets[at]
	if hub == nil {
		s.Waits = "it hasn't got this target yet"
		return s
	}
	i := slices.IndexFunc(hub.Spec.Targets, func(h v1alpha1.Target) bool { return h.UID == t.UID && slices.Equal(h.Addresses, t.Addresses) })
	if p := (Pair{Local: local, Hub: hub}); i < 0 || hub.Drains(i) != local.Drains(at) || !p.mirrors(since) {
		s.Waits = "it hasn't got this target as it stands here yet"
		return s
	}
	if !observed(hub) {
		s.Waits = "its manager hasn't looked at this target yet"
		return s
	}
	m := said(hub, t.UID)
	if local.Drains(at) {
		switch {
		case m == nil || m.State != isDrained:
			if s.Waits = "its proxies have not stopped yet"; m != nil && m.Message != "" {
				s.Waits = lower(m.Message)
			}
		case unproven != "":
			s.Waits = unproven
		default:
			s.Gone = true
		}
		return s
	}
	s.Live = 1
	switch {
	case m == nil:
		s.Healthy = 1
	case m.State == unhealthy:
		s.Unhealthy, s.Why = 1, lower(m.Message)
	}
	return s
}

// lower makes a part of a sentence of a whole one.
func lower(message string) string {
	message = strings.TrimSuffix(message, ".")
	return strings.ToLower(message[:min(len(message), 1)]) + message[min(len(message), 1):]
}
