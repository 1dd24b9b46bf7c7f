package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// InfraCluster is a kind of InfraCluster whose credentials are the provider's too.
type InfraCluster struct {
	schema.GroupKind
	// CredentialField is the field of its spec that names them, such as identityRef of an AWSCluster. Default: credentialRef.
	CredentialField string
}

// credentials of an object: its own; else those of its Cluster's infrastructure, if that is of the provider's family; else none. A
// problem says why there are none though somebody named some, or may have: never are the provider's own used instead.
func (r *reconciler) credentials(ctx context.Context, o Object, cluster *unstructured.Unstructured) (Credentials, *problem, error) {
	spec, _ := o.Contract()
	out, field := Credentials{Ref: spec.CredentialRef, Namespace: o.GetNamespace()}, "spec.credentialRef"
	if out.Ref == nil {
		var problem *problem
		var err error
		if out, field, problem, err = r.ofFamily(ctx, o, cluster); problem != nil || err != nil || out.Ref == nil {
			return Credentials{}, problem, err
		}
	}
	if out.Ref.APIGroup != "" || out.Ref.Kind != "" && out.Ref.Kind != "Secret" {
		return out, nil, nil
	}
	name := out.Ref.Name
	if out.Namespace != o.GetNamespace() {
		return Credentials{}, &problem{contract.ReasonCredentialsNotFound, fmt.Sprintf("%s names Secret %s of namespace %s, and is itself of %s: put the Secret there, or name another in spec.credentialRef.", field, name, out.Namespace, o.GetNamespace())}, nil
	}
	s := &corev1.Secret{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: out.Namespace, Name: name}, s)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return out, &problem{contract.ReasonCredentialsNotFound, fmt.Sprintf("The credentials in Secret %s can't be read: %v. Create it, let the provider read it, or mend %s.", name, err, field)}, nil
	}
	if err != nil {
		return out, nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	out.Secret = s.Data
	return out, nil, nil
}

// ofFamily are the credentials that the InfraCluster of a Cluster names, without their data, and the field that does; a nil Ref: none. Where
// it is no more, they are those that were used last.
func (r *reconciler) ofFamily(ctx context.Context, o Object, cluster *unstructured.Unstructured) (Credentials, string, *problem, error) {
	missing := func(format string, args ...any) (Credentials, string, *problem, error) {
		return Credentials{}, "", &problem{contract.ReasonCredentialsNotFound, fmt.Sprintf(format, args...)}, nil
	}
	ref, found := referenceOf(cluster, "infrastructureRef")
	n := slices.IndexFunc(r.InfraClusters, func(k InfraCluster) bool { return k.GroupKind == ref.GroupKind })
	if cluster != nil && (!found || n < 0) {
		return Credentials{}, "", nil, nil
	}
	var infra *unstructured.Unstructured
	if cluster != nil {
		var err error
		infra, err = r.read(ctx, ref.GroupKind, ref.namespace, ref.name)
		if apierrors.IsForbidden(err) {
			return missing("Which credentials %s of Cluster %s names can't be read: %v. Give the provider that right, or name credentials in spec.credentialRef.", ref, cluster.GetName(), err)
		}
		if err != nil {
			return Credentials{}, "", nil, err
		}
	}
	if infra == nil {
		last, err := remembered(o)
		switch {
		case err != nil:
			return missing("The annotation %s can't be read: %v. Remove it, and name the credentials in spec.credentialRef.", contract.CredentialsAnnotation, err)
		case last.Ref != nil || cluster == nil || o.GetDeletionTimestamp() != nil:
			return last, "the annotation " + contract.CredentialsAnnotation, nil, nil
		}
		return missing("%s, whose credentials are to be used, isn't there, though Cluster %s refers to it: create it, or name credentials in spec.credentialRef.", ref, cluster.GetName())
	}
	name := cmp.Or(r.InfraClusters[n].CredentialField, "credentialRef")
	field := fmt.Sprintf("spec.%s of %s", name, ref)
	out, err := namedBy(infra, name)
	if err != nil {
		return missing("%s %v: mend it, or name credentials in spec.credentialRef.", field, err)
	}
	return out, field, nil, nil
}

// namedBy reads a field of an InfraCluster's spec that names credentials, as leniently as such fields differ: with a kind or none, which is a
// Secret's; with an apiGroup, an apiVersion or neither, which is the InfraCluster's own group; with a namespace or none. A nil Ref: none are named.
func namedBy(infra *unstructured.Unstructured, field string) (Credentials, error) {
	x, found, err := unstructured.NestedFieldNoCopy(infra.Object, "spec", field)
	if err != nil || !found || x == nil {
		return Credentials{}, err
	}
	says, isObject := x.(map[string]any)
	if !isObject {
		return Credentials{}, errors.New("isn't an object with kind and name")
	}
	of := map[string]string{}
	for _, key := range []string{"apiGroup", "apiVersion", "kind", "namespace", "name"} {
		text, isText := says[key].(string)
		if says[key] != nil && !isText {
			return Credentials{}, fmt.Errorf("has a %s that is no text", key)
		}
		of[key] = text
	}
	switch {
	case of["name"] == "" && of["kind"] == "":
		return Credentials{}, nil
	case of["name"] == "":
		return Credentials{}, errors.New("has no name")
	}
	ref := &contract.CredentialReference{APIGroup: of["apiGroup"], Kind: cmp.Or(of["kind"], "Secret"), Name: of["name"]}
	if v := of["apiVersion"]; v != "" {
		ref.APIGroup = schema.FromAPIVersionAndKind(v, ref.Kind).Group
	} else if ref.APIGroup == "" && ref.Kind != "Secret" {
		ref.APIGroup = infra.GroupVersionKind().Group
	}
	return Credentials{Ref: ref, Namespace: cmp.Or(of["namespace"], infra.GetNamespace())}, nil
}

// used is what an object's annotation says of credentials.
type used struct {
	contract.CredentialReference `json:",inline"`
	Namespace                    string `json:"namespace"`
}

// remember writes down which credentials are used, where the object itself doesn't say it.
func remember(o Object, c Credentials) {
	spec, _ := o.Contract()
	all := maps.Clone(o.GetAnnotations())
	if spec.CredentialRef != nil || c.Ref == nil {
		delete(all, contract.CredentialsAnnotation)
	} else if text, err := json.Marshal(used{*c.Ref, c.Namespace}); err == nil { // of strings alone
		if all == nil {
			all = map[string]string{}
		}
		all[contract.CredentialsAnnotation] = string(text)
	}
	o.SetAnnotations(all)
}

// remembered are the credentials that were used last, without their data.
func remembered(o Object) (Credentials, error) {
	text, found := o.GetAnnotations()[contract.CredentialsAnnotation]
	if !found {
		return Credentials{}, nil
	}
	var u used
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		return Credentials{}, err
	}
	if u.Name == "" {
		return Credentials{}, errors.New("it has no name")
	}
	return Credentials{Ref: &u.CredentialReference, Namespace: u.Namespace}, nil
}
