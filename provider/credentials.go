package provider

import (
	"context"
	"fmt"
	"slices"

	"fairlead.dev/fairlead/provider/contract"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Credentials to manage a load balancer with.
type Credentials struct {
	// Ref is where they come from; nil: nobody named any, so the provider uses its own.
	Ref *contract.CredentialReference
	// Namespace of what Ref names, where its kind has one.
	Namespace string
	// Secret has the data, where Ref names a Secret. Other kinds are for the provider to read.
	Secret Secret
}

// Secret is a Secret's data. It prints as nothing.
type Secret map[string][]byte

const redacted = "(redacted)"

// Format prints no data, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalJSON writes no data.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// credentials of an object: its own; else those of its Cluster's infrastructure, if that is of the provider's family; else none. A
// problem says why there are none though somebody named some.
func (r *reconciler) credentials(ctx context.Context, o Object, cluster *unstructured.Unstructured) (Credentials, *problem, error) {
	spec, _ := o.Contract()
	ref := spec.CredentialRef
	if ref == nil {
		infra, err := r.referred(ctx, cluster, "infrastructureRef")
		if err != nil {
			return Credentials{}, nil, err
		}
		if infra != nil && slices.Contains(r.InfraClusters, infra.GroupVersionKind().GroupKind()) {
			ref = credentialRefOf(infra)
		}
	}
	if ref == nil {
		return Credentials{}, nil, nil
	}
	out := Credentials{Ref: ref, Namespace: o.GetNamespace()}
	if ref.APIGroup != "" || ref.Kind != "" && ref.Kind != "Secret" {
		return out, nil, nil
	}
	s := &corev1.Secret{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: out.Namespace, Name: ref.Name}, s)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return out, &problem{contract.ReasonCredentialsNotFound, fmt.Sprintf("The credentials in Secret %s can't be read: create it, let the provider read it, or mend spec.credentialRef.", ref.Name)}, nil
	}
	if err != nil {
		return out, nil, fmt.Errorf("reading Secret %s: %w", ref.Name, err)
	}
	out.Secret = s.Data
	return out, nil, nil
}

func credentialRefOf(infra *unstructured.Unstructured) *contract.CredentialReference {
	ref, found, err := unstructured.NestedStringMap(infra.Object, "spec", "credentialRef")
	if err != nil || !found || ref["name"] == "" {
		return nil
	}
	group := ref["apiGroup"]
	if v := ref["apiVersion"]; v != "" {
		group = schema.FromAPIVersionAndKind(v, ref["kind"]).Group
	}
	return &contract.CredentialReference{APIGroup: group, Kind: ref["kind"], Name: ref["name"]}
}
