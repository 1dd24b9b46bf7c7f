package controller_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// infraClusterCRD is what is kept of a provider's own CRD (hack/infraclusters); one that takes anything, where its module can't be had.
func (h *hub) infraClusterCRD(group, kind string) *unstructured.Unstructured {
	h.t.Helper()
	name := fmt.Sprintf("%s_%ss.yaml", group, strings.ToLower(kind))
	b, err := os.ReadFile(filepath.Join("..", "endpoint", "testdata", "infraclusters", name))
	if os.IsNotExist(err) {
		return openCRD(group, "v1beta1", kind)
	}
	u := &unstructured.Unstructured{}
	if err == nil {
		err = yaml.Unmarshal(b, &u.Object)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return u
}

// openCRD is a CRD that takes anything.
func openCRD(group, version, kind string) *unstructured.Unstructured {
	plural := strings.ToLower(kind) + "s"
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+"."+group, map[string]any{
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	})
}

// told waits for the condition InfraClusterTold of a ClusterEndpoint, as status/reason, and returns its message.
func (h *hub) told(e *clusterv1.ClusterEndpoint, want string) (message string) {
	h.t.Helper()
	wait(h, e, "InfraClusterTold="+want, func(e *clusterv1.ClusterEndpoint) error {
		for _, c := range e.Status.Conditions {
			if c.Type == clusterv1.ConditionInfraClusterTold {
				message = c.Message
			}
		}
		return condition(e.Status.Conditions, clusterv1.ConditionInfraClusterTold+"="+want)
	})
	return message
}

// endpointMistakes has what people get wrong of endpoints said on the ClusterEndpoint, and mended without a restart. It returns how often
// each Cluster was to be written.
func (h *hub) endpointMistakes() map[string]int {
	h.t.Helper()
	const group, kind = "infrastructure.cluster.x-k8s.io", "AWSCluster"
	set := func(o *unstructured.Unstructured, value any, fields ...string) {
		h.change(o, func(o client.Object) {
			u := o.(*unstructured.Unstructured).Object
			if value == nil {
				unstructured.RemoveNestedField(u, fields...)
			} else if err := unstructured.SetNestedField(u, value, fields...); err != nil {
				h.t.Error(err)
			}
		})
	}

	// The InfraCluster's kind isn't installed.
	ends, infras := map[string]*clusterv1.ClusterEndpoint{}, map[string]*unstructured.Unstructured{}
	for name, spec := range map[string]map[string]any{
		"unknown":  {"controlPlaneLoadBalancer": map[string]any{"loadBalancerType": "disabled"}},
		"competes": {"controlPlaneLoadBalancer": map[string]any{}}, // "classic", as the CRD has it
		"differs":  {"controlPlaneLoadBalancer": map[string]any{"loadBalancerType": "disabled"}, "controlPlaneEndpoint": map[string]any{"host": "else.example.com", "port": int64(443)}},
	} {
		cluster := h.newCluster(name, nil)
		if err := unstructured.SetNestedMap(cluster.Object, map[string]any{"apiGroup": group, "kind": kind, "name": name}, "spec", "infrastructureRef"); err != nil {
			h.t.Fatal(err)
		}
		ends[name] = h.newEndpoint(name, name, name+".example.com", 6443)
		infras[name] = object(group+"/v1beta2", kind, h.name, name, map[string]any{"spec": spec})
		h.create(cluster, ends[name])
		h.shows(cluster, name+".example.com:6443")
	}
	for name, e := range ends {
		if message := h.told(e, "False/"+clusterv1.ReasonInfraNotFound); !strings.Contains(message, kind+" "+name) {
			h.t.Errorf("%q doesn't name it", message)
		}
	}
	h.create(h.infraClusterCRD(group, kind))
	for name, o := range infras {
		h.eventually(kind+" "+name+" to be created", func(ctx ctx) error { return h.api.Create(ctx, o) })
	}

	// Half an endpoint, which is no part of the whole one; then of no Cluster that has anything.
	half := h.newCluster("half", map[string]any{"host": "old.example.com"})
	whole := h.newEndpoint("half", "half", "half.example.com", 6443)
	h.create(half, whole)
	if message := h.surfaced(whole, "False/"+clusterv1.ReasonEndpointIncomplete); !strings.Contains(message, "old.example.com") {
		h.t.Errorf("%q doesn't name the half", message)
	}
	set(half, nil, "spec", "controlPlaneEndpoint")
	h.surfaced(whole, "True/"+clusterv1.ReasonSurfaced)
	h.shows(half, "half.example.com:6443")

	h.told(ends["unknown"], "True/"+clusterv1.ReasonAsExpected)
	if message := h.told(ends["competes"], "False/"+clusterv1.ReasonInfraCompetes); !strings.Contains(message, "spec.controlPlaneLoadBalancer.loadBalancerType=disabled") {
		h.t.Errorf("%q doesn't say what to set", message)
	}
	message := h.told(ends["differs"], "False/"+clusterv1.ReasonInfraDiffers)
	for _, both := range []string{"differs.example.com:6443", "else.example.com:443"} {
		if !strings.Contains(message, both) {
			h.t.Errorf("%q doesn't name %s", message, both)
		}
	}
	set(infras["competes"], "disabled", "spec", "controlPlaneLoadBalancer", "loadBalancerType")
	set(infras["differs"], nil, "spec", "controlPlaneEndpoint")
	for name, o := range infras {
		h.told(ends[name], "True/"+clusterv1.ReasonAsExpected)
		h.shows(o, name+".example.com:6443")
	}

	// Nothing was written but what was to be said: a status for each of at most five states of a ClusterEndpoint, of which some may be passed over.
	all, _, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	said := map[string]int{}
	for _, w := range all {
		if w.Resource == "clusterendpoints/status" && strings.HasSuffix(w.User, ":fairlead-manager") {
			said[w.Name]++
		}
	}
	for _, name := range []string{"half", "unknown", "competes", "differs"} {
		if said[name] < 2 || said[name] > 5 {
			h.t.Errorf("the status of ClusterEndpoint %s was written %d times", name, said[name])
		}
	}
	return map[string]int{"half": 1, "unknown": 1, "competes": 1, "differs": 1}
}
