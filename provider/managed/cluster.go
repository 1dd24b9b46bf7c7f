package managed

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations of Cluster API.
const (
	// PausedAnnotation on a Cluster or what is its: nobody changes anything.
	PausedAnnotation = clusterv1.PausedAnnotation
	// MoveAnnotation on what is deleted from this hub alone, because another one has it now.
	MoveAnnotation = clusterv1.MoveAnnotation
)

// ClusterKind is Cluster API's kind of Clusters.
var ClusterKind = schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}

// Cluster is one of Cluster API, in whichever version the hub prefers.
type Cluster struct{ object *unstructured.Unstructured }

// Of reads the Cluster that owns an object, with a reader of the API server itself: what is decided by it is done outside. nil: no
// Cluster owns the object yet, or one that is no more, whatever has its name now. Cluster API makes a Cluster the owner of what
// it refers to.
func Of(ctx context.Context, reader client.Reader, kinds meta.RESTMapper, o client.Object) (*Cluster, error) {
	ref := ownerOf(o)
	if ref == nil {
		return nil, nil
	}
	m, err := kinds.RESTMapping(ClusterKind)
	if err != nil {
		return nil, fmt.Errorf("looking for Cluster API's Clusters: %w", err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(m.GroupVersionKind)
	switch err := reader.Get(ctx, types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}, u); {
	case apierrors.IsNotFound(err), err == nil && u.GetUID() != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Cluster %s/%s: %w", o.GetNamespace(), ref.Name, err)
	}
	return &Cluster{u}, nil
}

// ownerOf names the Cluster that owns an object; nil: none does.
func ownerOf(o client.Object) *metav1.OwnerReference {
	for _, ref := range o.GetOwnerReferences() {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == ClusterKind.Group && ref.Kind == ClusterKind.Kind {
			return &ref
		}
	}
	return nil
}

// IsOwnedBy says whether the Cluster of a name owns an object, for who maps Clusters to what is theirs.
func IsOwnedBy(o client.Object, cluster string) bool {
	ref := ownerOf(o)
	return ref != nil && ref.Name == cluster
}

// Name of the Cluster.
func (c *Cluster) Name() string { return c.object.GetName() }

// Holds says, in a sentence, why nothing may be done for an object; "": it may. The object or its Cluster is paused, or moves to
// another hub. cluster may be nil.
func Holds(o client.Object, cluster *Cluster) string {
	objects := []client.Object{o}
	if cluster != nil {
		if paused, _, err := unstructured.NestedBool(cluster.object.Object, "spec", "paused"); paused || err != nil {
			return fmt.Sprintf("Cluster %s is paused, by spec.paused.", cluster.Name())
		}
		objects = append(objects, cluster.object)
	}
	for _, x := range objects {
		for _, key := range []string{PausedAnnotation, MoveAnnotation} {
			if _, ok := x.GetAnnotations()[key]; ok {
				return fmt.Sprintf("%s has the annotation %s.", x.GetName(), key)
			}
		}
	}
	return ""
}

// InfrastructureProvisioned says that the Cluster's infrastructure is there. A Cluster without an infrastructureRef waits for none.
func (c *Cluster) InfrastructureProvisioned() bool {
	if ref, found, err := unstructured.NestedMap(c.object.Object, "spec", "infrastructureRef"); err == nil && (!found || len(ref) == 0) {
		return true
	}
	for _, path := range [][]string{{"status", "initialization", "infrastructureProvisioned"}, {"status", "infrastructureReady"}} { // v1beta2, v1beta1
		if yes, _, err := unstructured.NestedBool(c.object.Object, path...); err == nil && yes {
			return true
		}
	}
	return false
}

// Endpoint is the Cluster's, by whomever; false: it has none yet, or not all of one.
func (c *Cluster) Endpoint() (clusterv1.Endpoint, bool) {
	host, _, errHost := unstructured.NestedString(c.object.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, errPort := unstructured.NestedInt64(c.object.Object, "spec", "controlPlaneEndpoint", "port")
	if errHost != nil || errPort != nil || host == "" || port < 1 || port > 65535 {
		return clusterv1.Endpoint{}, false
	}
	return clusterv1.Endpoint{Host: host, Port: int32(port)}, true
}
