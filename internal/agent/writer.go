package agent

import (
	"context"
	"encoding/json"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager is under which the agent writes.
const fieldManager = "fairlead-agent"

// applyObject applies an object of the hub with spec, and returns the resource version of the answer.
func applyObject(ctx context.Context, hub client.Client, gvk metav1.TypeMeta, meta map[string]any, spec any) (string, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return "", fmt.Errorf("converting %s: %w", gvk.Kind, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvk.APIVersion, "kind": gvk.Kind, "metadata": meta, "spec": content,
	}}
	err = hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return "", fmt.Errorf("applying %s %s: %w", gvk.Kind, u.GetName(), err)
	}
	return u.GetResourceVersion(), nil
}

func anyMap(in map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		out[k] = v
	}
	return out
}

func applyLoadBalancer(ctx context.Context, hub client.Client, key types.NamespacedName, w service.Wanted) (string, error) {
	return applyObject(ctx, hub, metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "LoadBalancer"}, map[string]any{
		"namespace":   key.Namespace,
		"name":        key.Name,
		"annotations": anyMap(w.Annotations),
		"finalizers":  []any{clusterv1.Finalizer},
	}, &w.Spec)
}

func applyTargetGroup(ctx context.Context, hub client.Client, key types.NamespacedName, labels, annotations map[string]string, spec v1alpha1.TargetGroupSpec) (string, error) {
	return applyObject(ctx, hub, metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TargetGroup"}, map[string]any{
		"namespace":   key.Namespace,
		"name":        key.Name,
		"labels":      anyMap(labels),
		"annotations": anyMap(annotations),
	}, &spec)
}

// The patches of a Service name its UID, so that none meets a later Service of the same name.

// holdPatch puts finalizer and mark on a Service, and takes off the finalizer that it has from when it was served otherwise.
func holdPatch(s *v1.Service, at service.Place) map[string]any {
	meta := map[string]any{
		"uid":         s.UID,
		"annotations": map[string]any{v1alpha1.AnnotationLoadBalancer: service.Name(service.Key(s))},
	}
	add, remove := service.Finalizers(s, at)
	if add != "" {
		meta["finalizers"] = []string{add}
	}
	if remove != "" {
		meta["$deleteFromPrimitiveList/finalizers"] = []string{remove}
	}
	return map[string]any{"metadata": meta}
}

// unholdPatch takes both away; held is the finalizer, empty if none is ours.
func unholdPatch(s *v1.Service, held string) map[string]any {
	meta := map[string]any{"uid": s.UID, "annotations": map[string]any{v1alpha1.AnnotationLoadBalancer: nil}}
	if held != "" {
		meta["$deleteFromPrimitiveList/finalizers"] = []string{held}
	}
	return map[string]any{"metadata": meta}
}

// publishPatch writes what the user reads, all at once: the API server takes annotations with a Service's status. A nil condition
// is left as it is.
func publishPatch(s *v1.Service, at service.Place, ingress []v1.LoadBalancerIngress, condition *metav1.Condition) map[string]any {
	meta, status := map[string]any{"uid": s.UID}, map[string]any{}
	_, annotated := s.Annotations[v1alpha1.AnnotationPublished]
	switch {
	case at == service.InStatus:
		status["loadBalancer"] = map[string]any{"ingress": ingress}
		if annotated {
			meta["annotations"] = map[string]any{v1alpha1.AnnotationPublished: nil}
		}
	case len(ingress) > 0:
		meta["annotations"] = map[string]any{v1alpha1.AnnotationPublished: service.Published(ingress)}
	}
	if condition != nil {
		status["conditions"] = []any{condition}
	}
	return map[string]any{"metadata": meta, "status": status}
}

// emptyPatch takes from a Service what publishPatch wrote there, with the addresses in its status where they are ours: another
// controller's may have changed since they were read.
func emptyPatch(s *v1.Service, addresses bool) map[string]any {
	status := map[string]any{"conditions": []any{map[string]any{"$patch": "delete", "type": service.ConditionProgrammed}}}
	if addresses {
		status["loadBalancer"] = map[string]any{"ingress": nil}
	}
	return map[string]any{
		"metadata": map[string]any{"uid": s.UID, "annotations": map[string]any{v1alpha1.AnnotationPublished: nil}},
		"status":   status,
	}
}

func mergePatch(patch map[string]any) (client.Patch, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, b), nil
}

func rawPatch(patch map[string]any) (client.Patch, error) {
	b, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.StrategicMergePatchType, b), nil
}
