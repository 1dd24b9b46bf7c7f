package clusters

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	rules "fairlead.dev/fairlead/internal/endpoint"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Served is a kind of Cluster API in the version that the hub serves; empty: it doesn't.
func Served(kinds meta.RESTMapper, kind string) (schema.GroupVersionKind, error) {
	group := schema.GroupVersion{Group: clusterv1.GroupVersion.Group}
	for _, group.Version = range []string{"v1beta2", "v1beta1"} {
		k := group.WithKind(kind)
		switch served, err := Has(kinds, k); {
		case err != nil:
			return schema.GroupVersionKind{}, err
		case served:
			return k, nil
		}
	}
	return schema.GroupVersionKind{}, nil
}

// Has says whether the hub serves a kind in that version.
func Has(kinds meta.RESTMapper, k schema.GroupVersionKind) (bool, error) {
	_, err := kinds.RESTMapping(k.GroupKind(), k.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("looking for kind %s: %w", k.Kind, err)
	}
	return err == nil, nil
}

// Get reads a Cluster from the API server itself; nil: there is none.
func Get(ctx context.Context, reader client.Reader, kinds meta.RESTMapper, key types.NamespacedName) (*unstructured.Unstructured, error) {
	kind, err := Served(kinds, "Cluster")
	if err != nil || kind.Empty() {
		return nil, err
	}
	c := &unstructured.Unstructured{}
	c.SetGroupVersionKind(kind)
	switch err := reader.Get(ctx, key, c); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s: %w", key, err)
	}
	return c, nil
}

// OwnerOf names the Cluster that owns an object, as Cluster API notes on what a Cluster refers to; nil: none does.
func OwnerOf(o client.Object) *metav1.OwnerReference {
	for _, ref := range o.GetOwnerReferences() {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Cluster" {
			return &ref
		}
	}
	return nil
}

// Of reads the Cluster that owns an object. nil: none does, or one that was deleted since, whatever has its name now.
func Of(ctx context.Context, reader client.Reader, kinds meta.RESTMapper, o client.Object) (*unstructured.Unstructured, error) {
	ref := OwnerOf(o)
	if ref == nil {
		return nil, nil
	}
	c, err := Get(ctx, reader, kinds, types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name})
	if err != nil || c == nil || c.GetUID() != ref.UID {
		return nil, err
	}
	return c, nil
}

// Leaving says that an object is being deleted, or moves to another hub.
func Leaving(o client.Object) bool {
	_, moving := o.GetAnnotations()[clusterv1.MoveAnnotation]
	return o.GetDeletionTimestamp() != nil || moving
}

// IsPaused says that a Cluster, or what is its, is paused: by spec.paused, which a Cluster alone has, or by the annotation.
func IsPaused(o client.Object) bool {
	_, annotated := o.GetAnnotations()[clusterv1.PausedAnnotation]
	c, ok := o.(*unstructured.Unstructured)
	if !ok {
		return annotated
	}
	inSpec, _, err := unstructured.NestedBool(c.Object, "spec", "paused")
	return annotated || inSpec || err != nil
}

// Endpoint is the spec.controlPlaneEndpoint of a Cluster, an InfraCluster or a control plane object, or of none. What isn't as
// the API has it counts as absent.
func Endpoint(o *unstructured.Unstructured) rules.HostPort {
	if o == nil {
		return rules.HostPort{}
	}
	host, _, errHost := unstructured.NestedString(o.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, errPort := unstructured.NestedInt64(o.Object, "spec", "controlPlaneEndpoint", "port")
	if errHost != nil || errPort != nil {
		return rules.HostPort{}
	}
	return rules.HostPort{Host: host, Port: int32(port)}
}
