package management

import (
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Problem is why the hub hasn't got a LoadBalancer as it stands here: a reason of the API, cause and fix.
type Problem struct{ Reason, Message string }

// told are the conditions that are the hub's.
var told = []string{
	clusterv1.ConditionAccepted, clusterv1.ConditionAddressGranted, clusterv1.ConditionProgrammed, clusterv1.ConditionReady, clusterv1.ConditionDegraded,
}

// Status is what a LoadBalancer is to say, on top of what others wrote there. have is the hub's, nil if it has none; same says that
// it is as it stands here: what the hub says of another generation is shown, and not taken for a word on this one. where names it.
func Status(l, have *clusterv1.LoadBalancer, same bool, where string, problem *Problem) clusterv1.LoadBalancerStatus {
	s := *l.Status.DeepCopy()
	s.TargetKind = "Machine." + clusterv1.GroupVersion.Group
	if selector, err := member.Selector(l); err == nil { // else the controller of members says so
		s.TargetSelector = cut(selector.String(), 4000)
	}
	if have != nil && have.DeletionTimestamp == nil {
		s.Addresses, s.Ports = have.Status.Addresses, have.Status.Ports
		for _, kind := range told {
			c := meta.FindStatusCondition(have.Status.Conditions, kind)
			if c == nil {
				continue
			}
			next := metav1.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: c.Message}
			if p := build.Unpublished(l); kind == clusterv1.ConditionReady && c.Status == metav1.ConditionTrue && p != nil {
				next.Status, next.Reason, next.Message = metav1.ConditionFalse, p.Reason, p.Message // which the hub doesn't know
			}
			switch old := meta.FindStatusCondition(l.Status.Conditions, kind); {
			case same && c.ObservedGeneration == have.Generation:
				next.ObservedGeneration = l.Generation
			case old != nil:
				next.ObservedGeneration = min(old.ObservedGeneration, l.Generation-1)
			}
			meta.SetStatusCondition(&s.Conditions, next)
		}
	}
	if problem == nil && !same {
		return s // what was written is on its way
	}
	m := metav1.Condition{Type: clusterv1.ConditionMirrored, Status: metav1.ConditionTrue, Reason: clusterv1.ReasonAsExpected, Message: "It is " + where + ".", ObservedGeneration: l.Generation}
	if problem != nil {
		m.Status, m.Reason, m.Message = metav1.ConditionFalse, problem.Reason, cut(sentence(problem.Message), 1000)
	}
	meta.SetStatusCondition(&s.Conditions, m)
	return s
}

// StandsStill are the conditions of a LoadBalancer while nothing of it is mirrored, for that reason.
func StandsStill(l *clusterv1.LoadBalancer, why string) []metav1.Condition {
	s := *l.Status.DeepCopy()
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: clusterv1.ConditionMirrored, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonStandsStill, Message: cut(sentence(why), 1000), ObservedGeneration: l.Generation,
	})
	return s.Conditions
}

// Unsure is why it isn't sure that what the status of a LoadBalancer here says of its address is so now; "": it is. have is what the
// hub, of that UID, has just said that it has. What it says is for good: it is what a Cluster's users are told.
func Unsure(l, have *clusterv1.LoadBalancer, hubUID string) string {
	want := Want(l, have)
	switch {
	case have == nil, !want.Same(have):
		return "the hub hasn't got it as it stands here"
	case hubUID != "" && l.Annotations[clusterv1.HubAnnotation] != hubUID:
		return "the hub is another one than served it before, and doesn't serve it yet"
	case !Served(have), !equality.Semantic.DeepEqual(l.Status.Addresses, have.Status.Addresses):
		return "the hub doesn't serve it as its status says"
	}
	return ""
}

// Known says that the hub's manager has looked at a LoadBalancer, and so knows who may send to its targets.
func Known(have *clusterv1.LoadBalancer) bool {
	return have != nil && meta.FindStatusCondition(have.Status.Conditions, clusterv1.ConditionAccepted) != nil
}

// Served says that the hub's proxies serve a LoadBalancer as it stands there.
func Served(have *clusterv1.LoadBalancer) bool {
	if have == nil || have.DeletionTimestamp != nil {
		return false
	}
	c := meta.FindStatusCondition(have.Status.Conditions, clusterv1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == have.Generation
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.TrimSuffix(strings.ToUpper(s[:1])+s[1:], ".") + "."
}
