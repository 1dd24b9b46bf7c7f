package clusters

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reference is what a Cluster refers to.
type Reference struct {
	Kind schema.GroupKind
	Name string
	// Object; nil: it isn't there, or can't be read.
	Object *unstructured.Unstructured
}

// Referred reads what a Cluster refers to by a field of its spec, such as controlPlaneRef, in the version that the hub prefers. What isn't
// as the API has it refers to nothing.
func Referred(ctx context.Context, reader client.Reader, kinds meta.RESTMapper, c *unstructured.Unstructured, field string) (Reference, error) {
	ref, found, err := unstructured.NestedMap(c.Object, "spec", field)
	if err != nil || !found {
		return Reference{}, nil
	}
	word := func(name string) string {
		s, _, err := unstructured.NestedString(ref, name)
		if err != nil {
			return ""
		}
		return s
	}
	out := Reference{Kind: schema.GroupKind{Group: word("apiGroup"), Kind: word("kind")}, Name: word("name")}
	if v := word("apiVersion"); v != "" { // as Cluster API's v1beta1 has it
		out.Kind.Group = schema.FromAPIVersionAndKind(v, out.Kind.Kind).Group
	}
	mapping, err := kinds.RESTMapping(out.Kind)
	switch {
	case meta.IsNoMatchError(err):
		return out, nil
	case err != nil:
		return out, fmt.Errorf("looking for kind %s: %w", out.Kind, err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(mapping.GroupVersionKind)
	switch err := reader.Get(ctx, types.NamespacedName{Namespace: c.GetNamespace(), Name: out.Name}, o); {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
	case err != nil:
		return out, fmt.Errorf("reading %s %s/%s: %w", out.Kind, c.GetNamespace(), out.Name, err)
	default:
		out.Object = o
	}
	return out, nil
}
