package build

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unpublished is what the controller of endpoints says of a control plane's LoadBalancer whose Cluster hasn't its endpoint, and should;
// nil: nothing. Where nobody looks, as without the rights, it is unknown, and nothing is missed.
func Unpublished(l *clusterv1.LoadBalancer) *metav1.Condition {
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
	switch {
	case c == nil, c.Status != metav1.ConditionFalse, l.Spec.Role != clusterv1.RoleControlPlane:
		return nil
	case c.Reason == clusterv1.ReasonNotPrimary, c.Reason == clusterv1.ReasonNotSupported:
		return nil // another's is published, or none is meant to be
	}
	return c
}
