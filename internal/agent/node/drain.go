package node

import (
	"slices"
	"strconv"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	v1 "k8s.io/api/core/v1"
)

// TaintFor bounds how long a Node drains for the cluster autoscaler's taint: one that deletes a Node has done it by then, and one
// that was stopped in between leaves its taint behind.
const TaintFor = time.Hour

// Doom is the cluster autoscaler's taint on a Node: it is about to delete it. The zero value: it isn't.
type Doom struct {
	// Since is when the taint was set, as far as that is known.
	Since time.Time
	// Value is the taint's: when it was set, in seconds.
	Value string
}

// Doomed tells whether the cluster autoscaler is about to delete a Node, by its taint, and since when; zero: it isn't, or the Node
// drains because a person said so. before is what was said of the Node last. The time in the taint's value counts, or when we saw the
// taint first, whichever is earlier; one with another value than before was set anew.
func Doomed(n *v1.Node, before Doom, now time.Time) Doom {
	i := slices.IndexFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == member.ScaleDownTaint })
	if _, disabled := n.Annotations[clusterv1.DisabledAnnotation]; disabled || i < 0 {
		return Doom{}
	}
	d := Doom{Since: before.Since, Value: n.Spec.Taints[i].Value}
	if before.Since.IsZero() || before.Value != d.Value {
		d.Since = now
	}
	seconds, err := strconv.ParseInt(d.Value, 10, 64)
	if at := time.Unix(seconds, 0); err == nil && seconds > 0 && at.Before(d.Since) {
		d.Since = at
	}
	return d
}

// Spare has targets serve again that drain for the autoscaler alone: those for which that lasts too long, and, where no Node that
// is ready serves, those that are; where nothing at all would serve, all of them. doomed are those, by the Node's UID. again is
// when the next one's time is over; 0: never.
func Spare(targets []v1alpha1.Target, doomed map[string]Doom, now time.Time) (spared []v1alpha1.Target, again time.Duration) {
	spared = slices.Clone(targets)
	for i := range spared {
		d, is := doomed[spared[i].UID]
		if lasts := now.Sub(d.Since); is && lasts >= TaintFor {
			spared[i].State = v1alpha1.TargetServing
		} else if is && (again == 0 || TaintFor-lasts < again) {
			again = TaintFor - lasts
		}
	}
	ready := func(t v1alpha1.Target) bool { return t.Ready == nil || *t.Ready }
	for _, counts := range []func(v1alpha1.Target) bool{ready, func(v1alpha1.Target) bool { return true }} {
		if slices.ContainsFunc(spared, func(t v1alpha1.Target) bool { return t.State == v1alpha1.TargetServing && counts(t) }) {
			break
		}
		for i := range spared {
			if _, is := doomed[spared[i].UID]; is && counts(spared[i]) {
				spared[i].State = v1alpha1.TargetServing
			}
		}
	}
	return spared, again
}

// SameDoom tells whether Doomed says the same of two states of a Node, whenever it is asked.
func SameDoom(a, b *v1.Node) bool {
	ever := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // when each time that a taint's value says has passed
	x, y := Doomed(a, Doom{}, ever), Doomed(b, Doom{}, ever)
	return x.Since.Equal(y.Since) && x.Value == y.Value
}
