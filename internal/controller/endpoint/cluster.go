package endpoint

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Served is a kind of Cluster API in the version that the hub serves; empty: it doesn't.
func (r *Reconciler) Served(kind string) (schema.GroupVersionKind, error) {
	return clusters.Served(r.Kinds, kind)
}

// cluster reads one from the API server itself, for it is about to be written; nil: there is none.
func (r *Reconciler) cluster(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	return clusters.Get(ctx, r.Reader, r.Kinds, key)
}

// still says why nothing may be written for a Cluster now; "": it may.
func still(c *unstructured.Unstructured) string {
	switch {
	case clusters.Leaving(c):
		return "the Cluster is being deleted"
	case clusters.IsPaused(c):
		return "the Cluster is paused"
	}
	return ""
}

// endpointOf is what an object says in spec.controlPlaneEndpoint.
func endpointOf(c *unstructured.Unstructured) rules.HostPort { return clusters.Endpoint(c) }

// surface writes host and port in one patch, if the Cluster or InfraCluster is still the one that was read.
func (r *Reconciler) surface(ctx context.Context, c *unstructured.Unstructured, h rules.HostPort) error {
	old := c.DeepCopy()
	if err := unstructured.SetNestedMap(c.Object, map[string]any{"host": h.Host, "port": int64(h.Port)}, "spec", "controlPlaneEndpoint"); err != nil {
		return fmt.Errorf("setting spec.controlPlaneEndpoint of %s %s/%s: %w", c.GetKind(), c.GetNamespace(), c.GetName(), err)
	}
	if err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("writing the endpoint %s to %s %s/%s: %w", h, c.GetKind(), c.GetNamespace(), c.GetName(), err)
	}
	r.Logger.Info("endpoint surfaced", "kind", c.GetKind(), "name", c.GetNamespace()+"/"+c.GetName(), "endpoint", h.String())
	return nil
}

// inUse says whether a kubeconfig or a Machine may have been made from a Cluster's endpoint.
func (r *Reconciler) inUse(ctx context.Context, c *unstructured.Unstructured) (bool, error) {
	if yes, err := r.kubeconfig(ctx, c); err != nil || yes {
		return yes, err
	}
	kind, err := r.Served("Machine")
	if err != nil || kind.Empty() {
		return false, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := r.Reader.List(ctx, list, client.InNamespace(c.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: c.GetName()}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("looking for Machines of Cluster %s/%s: %w", c.GetNamespace(), c.GetName(), err)
	}
	return len(list.Items) > 0, nil
}

// kubeconfig says whether a Cluster may have a kubeconfig.
func (r *Reconciler) kubeconfig(ctx context.Context, c *unstructured.Unstructured) (bool, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: c.GetNamespace(), Name: c.GetName() + "-kubeconfig"}, secret)
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	}
	return false, fmt.Errorf("looking for the kubeconfig of Cluster %s/%s: %w", c.GetNamespace(), c.GetName(), err)
}
