package endpoint

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Untended says of the LoadBalancers of control planes that nobody looks after the endpoint of their Cluster, for a reason of the API and
// in a sentence that says what to do. One that was published stays so: its Cluster keeps what it has. A Cluster's control plane object,
// which may name one, isn't read.
func (r *Reconciler) Untended(ctx context.Context, reason, message string) error {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing LoadBalancers: %w", err)
	}
	named, err := r.namedByClusters(ctx)
	if err != nil {
		return err
	}
	for i := range list.Items {
		l := &list.Items[i]
		said := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished)
		next := l.DeepCopy()
		switch {
		case l.DeletionTimestamp != nil, said != nil && said.Status == metav1.ConditionTrue:
			continue
		case l.Spec.Role == clusterv1.RoleControlPlane && member.ClusterName(l) != "", l.Spec.Role == "" && named[client.ObjectKeyFromObject(l)]:
			meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
				Type: clusterv1.ConditionEndpointPublished, Status: metav1.ConditionUnknown, Reason: reason, Message: message, ObservedGeneration: l.Generation,
			})
		default:
			meta.RemoveStatusCondition(&next.Status.Conditions, clusterv1.ConditionEndpointPublished)
		}
		if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
		}
	}
	return nil
}

// namedByClusters are the LoadBalancers that Clusters call their control plane's; none where Clusters aren't served, or may not be listed.
func (r *Reconciler) namedByClusters(ctx context.Context) (map[types.NamespacedName]bool, error) {
	kind, err := r.Served("Cluster")
	if err != nil || kind.Empty() {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.Reader.List(ctx, list); apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	out := map[types.NamespacedName]bool{}
	for i := range list.Items {
		c := &list.Items[i]
		if name := member.NamedBy(c.Name, c.Annotations, nil); name != "" {
			out[types.NamespacedName{Namespace: c.Namespace, Name: name}] = true
		}
	}
	return out, nil
}
