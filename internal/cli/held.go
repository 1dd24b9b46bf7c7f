package cli

import (
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/build"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// heldRung says what of l is served on only because nobody was seen to delete what it was made from; false: nothing is.
func heldRung(o *Objects, l *clusterv1.LoadBalancer) (Rung, bool) {
	r := Rung{Name: "held", State: Warning}
	if until, ok := heldUntil(l); ok {
		r.Reason = service.ReasonServicesMissing
		r.Message = fmt.Sprintf("its Service is missing and nobody was seen to delete it: it is served until %s. Create the Service again, or write an earlier time to the annotation %s of LoadBalancer %s/%s",
			until, v1alpha1.AnnotationHeldUntil, l.Namespace, l.Name)
	}
	selector, err := build.Selector(l)
	if err != nil {
		return r, r.Reason != ""
	}
	for _, g := range o.TargetGroups {
		until, ok := heldUntil(g)
		if !ok || g.Namespace != l.Namespace || selector.Empty() || !selector.Matches(labels.Set(g.Labels)) {
			continue
		}
		text := fmt.Sprintf("most Nodes are missing and nobody was seen to delete them: they stay targets until %s. Bring them back, or write an earlier time to the annotation %s of TargetGroup %s/%s",
			until, v1alpha1.AnnotationHeldUntil, g.Namespace, g.Name)
		if r.Reason == "" {
			r.Reason, r.Message = service.ReasonNodesMissing, text
		} else {
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: service.ReasonNodesMissing + ": " + text})
		}
	}
	return r, r.Reason != ""
}

// heldUntil is the time on an object that is held; what is no time holds nothing.
func heldUntil(o metav1.Object) (string, bool) {
	until, err := time.Parse(time.RFC3339, o.GetAnnotations()[v1alpha1.AnnotationHeldUntil])
	return until.UTC().Format(time.RFC3339), err == nil
}
