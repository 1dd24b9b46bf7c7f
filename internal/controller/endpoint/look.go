package endpoint

import (
	"context"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Cluster is what those who follow its Machines ask about it.
type Cluster struct {
	// Found: it exists.
	Found bool
	// Still is why nothing of it is to be written or to move now; "": it may. One that is being deleted may.
	Still string
	// Leaving: it, or its control plane object, is being deleted.
	Leaving bool
	// Unread is why its control plane object can't be read, which counts as not being deleted meanwhile; nil: it was, or it has none.
	Unread error
	// Named is the LoadBalancer that it calls its control plane's; "": none.
	Named string
}

// Look reads a Cluster, and its control plane object where that may be read, from the API server itself.
func (r *Reconciler) Look(ctx context.Context, key types.NamespacedName) (Cluster, error) {
	c, err := r.cluster(ctx, key)
	if err != nil || c == nil {
		return Cluster{}, err
	}
	control, err := r.referred(ctx, c, "controlPlaneRef")
	out := Cluster{Found: true, Still: standsStill(c), Leaving: c.GetDeletionTimestamp() != nil, Unread: err}
	if o := control.object; o != nil {
		out.Leaving = out.Leaving || o.GetDeletionTimestamp() != nil
	}
	out.Named = member.NamedBy(c.GetName(), c.GetAnnotations(), control.annotations())
	return out, nil
}

// standsStill says why nothing of a Cluster is to move now; "": it may. clusterctl pauses what it moves, and marks it for its deletion.
func standsStill(c *unstructured.Unstructured) string {
	isPaused, _, err := unstructured.NestedBool(c.Object, "spec", "paused")
	_, annotated := c.GetAnnotations()[clusterv1.PausedAnnotation]
	_, moving := c.GetAnnotations()[clusterv1.MoveAnnotation]
	switch {
	case moving:
		return "the Cluster moves to another hub"
	case isPaused, annotated, err != nil:
		return "the Cluster is paused"
	}
	return ""
}
