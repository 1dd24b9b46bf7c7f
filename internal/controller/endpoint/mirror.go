package endpoint

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// owner is what owns a ClusterEndpoint that is generated: what its endpoint came from, or else the Cluster.
func owner(from rules.Source, c *unstructured.Unstructured, infra, control referred, f *fronts) metav1.OwnerReference {
	switch {
	case from == rules.FromInfraCluster && infra.object != nil:
		return ownedBy(infra.object)
	case from == rules.FromControlPlane && control.object != nil:
		return ownedBy(control.object)
	case from == rules.FromLoadBalancer && f.primary != nil:
		return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "LoadBalancer", Name: f.primary.Name, UID: f.primary.UID}
	}
	return ownedBy(c)
}

// forget deletes what mirrors another Cluster of this one's name, one that was deleted before: its endpoint is dead, and
// garbage collection may come later. What mirrors the endpoint that this one has, as where it was restored with another UID, or
// doesn't say whose it is, is this one's. It returns the others.
func (r *Reconciler) forget(ctx context.Context, c *unstructured.Unstructured, infra, control referred, f *fronts, all []clusterv1.ClusterEndpoint) ([]clusterv1.ClusterEndpoint, error) {
	var out []clusterv1.ClusterEndpoint
	for i := range all {
		e := &all[i]
		_, generated := e.Annotations[clusterv1.GeneratedFromAnnotation]
		if !generated || e.Annotations[clusterv1.GeneratedForAnnotation] == string(c.GetUID()) {
			out = append(out, *e)
			continue
		}
		if of := read(e); endpointOf(c).Whole() && of.Same(endpointOf(c)) {
			if err := r.take(ctx, c, owner(of.Source, c, infra, control, f), e); err != nil {
				return nil, err
			}
			out = append(out, *e)
			continue
		}
		if err := r.remove(ctx, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// take makes a generated one this Cluster's and its owner's, if it is still as it was read. Where its endpoint came from stays.
func (r *Reconciler) take(ctx context.Context, c *unstructured.Unstructured, owner metav1.OwnerReference, e *clusterv1.ClusterEndpoint) error {
	old := e.DeepCopy()
	e.Annotations[clusterv1.GeneratedForAnnotation] = string(c.GetUID())
	e.OwnerReferences = []metav1.OwnerReference{owner}
	if err := r.Client.Patch(ctx, e, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("noting Cluster %s on the generated ClusterEndpoint %s/%s: %w", c.GetName(), e.Namespace, e.Name, err)
	}
	return nil
}

func ownedBy(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}

// remove deletes a generated one, if it is still as it was read.
func (r *Reconciler) remove(ctx context.Context, e *clusterv1.ClusterEndpoint) error {
	if err := r.Client.Delete(ctx, e, client.Preconditions{UID: &e.UID, ResourceVersion: &e.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the generated ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
	}
	return nil
}

// mirror keeps the generated ClusterEndpoint as it is to be, and returns all that there are then.
func (r *Reconciler) mirror(ctx context.Context, c *unstructured.Unstructured, owner metav1.OwnerReference, all []clusterv1.ClusterEndpoint, plan rules.Plan) ([]clusterv1.ClusterEndpoint, error) {
	var out []clusterv1.ClusterEndpoint
	found := false
	for i := range all {
		e := &all[i]
		if _, generated := e.Annotations[clusterv1.GeneratedFromAnnotation]; !generated {
			out = append(out, *e)
			continue
		}
		if plan.Generated == nil || found {
			if err := r.remove(ctx, e); err != nil {
				return nil, err
			}
			continue
		}
		found = true
		old := e.DeepCopy()
		e.Spec.Host, e.Spec.Port, e.Spec.ServiceRef = plan.Generated.Host, plan.Generated.Port, nil
		owned := slices.ContainsFunc(e.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
		if plan.Generated.Source == rules.FromLoadBalancer && plan.Waits == "" && !owned {
			e.OwnerReferences = []metav1.OwnerReference{owner} // a LoadBalancer that is deleted doesn't take it along
		}
		if !equality.Semantic.DeepEqual(old, e) {
			if err := r.Client.Patch(ctx, e, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
				return nil, fmt.Errorf("writing the generated ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
			}
		}
		out = append(out, *e)
	}
	if plan.Generated == nil || found {
		return out, nil
	}
	e, err := r.generated(ctx, c, owner, *plan.Generated)
	if err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, e, client.FieldOwner(kit.FieldManager)); err != nil {
		return nil, fmt.Errorf("creating the ClusterEndpoint of Cluster %s/%s: %w", c.GetNamespace(), c.GetName(), err)
	}
	return append(out, *e), nil
}

// generated is a new one, of the Cluster's name unless another Cluster's ClusterEndpoint has that, or one that somebody made.
func (r *Reconciler) generated(ctx context.Context, c *unstructured.Unstructured, owner metav1.OwnerReference, g rules.Generated) (*clusterv1.ClusterEndpoint, error) {
	e := &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.GetNamespace(), Name: c.GetName(),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: c.GetName()},
			Annotations:     map[string]string{clusterv1.GeneratedFromAnnotation: string(g.Source), clusterv1.GeneratedForAnnotation: string(c.GetUID())},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: clusterv1.ClusterEndpointSpec{Cluster: c.GetName(), Host: g.Host, Port: g.Port, Type: clusterv1.ClusterEndpointAPIServer},
	}
	other := &clusterv1.ClusterEndpoint{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(e), other); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
	case err != nil:
	case other.Spec.Cluster != e.Spec.Cluster, !read(other).Generated:
		e.Name += "-generated"
	}
	return e, nil
}
