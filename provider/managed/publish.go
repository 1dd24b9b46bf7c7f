package managed

import (
	"context"
	"fmt"
	"maps"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Taken says that somebody else's ClusterEndpoint has the name that an object's would have. Repeating doesn't mend that.
type Taken struct{ Namespace, Name string }

func (t *Taken) Error() string {
	return fmt.Sprintf("ClusterEndpoint %s/%s is there, and not this object's: delete it, or give it another name", t.Namespace, t.Name)
}

// EndpointName is that of the ClusterEndpoint that an object of a kind publishes.
func EndpointName(kind, name string) string { return name + "-" + strings.ToLower(kind) }

// Publish says at which endpoint a Cluster's control plane is reached: it makes a ClusterEndpoint with the Cluster's label, owned by the
// object that the endpoint came from, or has the one that there is say it. It goes with its owner, by the hub's garbage collection. c
// is a client whose scheme has the owner's kind and Fairlead's; it writes nothing where nothing changes. Whether the endpoint
// surfaces on the Cluster, and why not, the ClusterEndpoint's condition Surfaced says. *Taken: another object's has the name.
func Publish(ctx context.Context, c client.Client, owner client.Object, cluster string, e clusterv1.Endpoint) error {
	gvk, err := apiutil.GVKForObject(owner, c.Scheme())
	if err != nil {
		return fmt.Errorf("the kind of the ClusterEndpoint's owner: %w", err)
	}
	ref := metav1.NewControllerRef(owner, gvk)
	ref.BlockOwnerDeletion = nil // for which one must be allowed to write the owner's finalizers
	wants := &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: EndpointName(gvk.Kind, owner.GetName()),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: cluster},
			OwnerReferences: []metav1.OwnerReference{*ref},
		},
		Spec: clusterv1.ClusterEndpointSpec{Cluster: cluster, Host: e.Host, Port: e.Port, Type: clusterv1.ClusterEndpointExternalControlPlane},
	}
	has := &clusterv1.ClusterEndpoint{}
	err = c.Get(ctx, client.ObjectKeyFromObject(wants), has)
	if apierrors.IsNotFound(err) {
		if err := c.Create(ctx, wants); err != nil {
			return fmt.Errorf("creating ClusterEndpoint %s/%s: %w", wants.Namespace, wants.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ClusterEndpoint %s/%s: %w", wants.Namespace, wants.Name, err)
	}
	if !isOf(has, gvk.GroupKind(), owner.GetName()) {
		return &Taken{has.Namespace, has.Name}
	}
	next := has.DeepCopy()
	next.OwnerReferences = wants.OwnerReferences // after a restore, the owner has another UID
	next.Labels = maps.Clone(has.Labels)
	if next.Labels == nil {
		next.Labels = map[string]string{}
	}
	next.Labels[clusterv1.ClusterNameLabel] = cluster
	wants.Spec.Primary = has.Spec.Primary // people's
	wants.Spec.Type = has.Spec.Type
	next.Spec = wants.Spec
	if equality.Semantic.DeepEqual(has, next) {
		return nil
	}
	if err := c.Patch(ctx, next, client.MergeFromWithOptions(has, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing ClusterEndpoint %s/%s: %w", has.Namespace, has.Name, err)
	}
	return nil
}

// isOf says whether the object of a kind and a name owns a ClusterEndpoint.
func isOf(e *clusterv1.ClusterEndpoint, kind schema.GroupKind, name string) bool {
	ref := metav1.GetControllerOf(e)
	if ref == nil || ref.Kind != kind.Kind || ref.Name != name {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == kind.Group
}
