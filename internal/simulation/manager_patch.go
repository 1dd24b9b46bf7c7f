package simulation

import (
	"encoding/json"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merged applies a merge patch. A version or UID in it is a precondition.
func merged(have client.Object, patch []byte) (client.Object, error) {
	whole, err := json.Marshal(have)
	if err != nil {
		return nil, err
	}
	var to, from map[string]any
	if err := json.Unmarshal(whole, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &from); err != nil {
		return nil, err
	}
	merge(to, from)
	if whole, err = json.Marshal(to); err != nil {
		return nil, err
	}
	var next client.Object = &clusterv1.LoadBalancer{}
	switch kindOf(have) {
	case targetGroups:
		next = &v1alpha1.TargetGroup{}
	case proxies:
		next = &v1alpha1.Proxy{}
	case addresses:
		next = &v1alpha1.Address{}
	case tenants:
		next = &v1alpha1.Tenant{}
	case machineKind, clusterKind:
		o := &unstructured.Unstructured{}
		return o, o.UnmarshalJSON(whole)
	}
	return next, json.Unmarshal(whole, next)
}

func merge(to, from map[string]any) {
	for k, v := range from {
		inner, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(to, k)
		case ok:
			if have, ok := to[k].(map[string]any); ok {
				merge(have, inner)
				continue
			}
			made := map[string]any{}
			merge(made, inner)
			to[k] = made
		default:
			to[k] = v
		}
	}
}
