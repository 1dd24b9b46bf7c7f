package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// change is one of an object that is there, and what its refusal says; empty: it is taken.
type change struct{ name, kind, before, after, says string }

// changes are of what may not change once it is there, and of what may.
func changes() []change {
	return []change{
		{"class filled in", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{}`, `{className: a}`, ""},
		{"class changed", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{className: a}`, `{className: b}`, "className is immutable once set: delete the LoadBalancer and create it with the other class"},
		{"class emptied", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{className: a}`, `{className: ""}`, "className is immutable once set"},
		{"class removed", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{className: a}`, `{}`, "className is immutable once set"},
		{"spec removed", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{className: a}`, `null`, "spec: Required"},
		{"class changed, old version", "cluster.x-k8s.io/v1alpha4 LoadBalancer", `{className: a}`, `{className: b}`, "className is immutable once set"},
		{"ports changed", "cluster.x-k8s.io/v1beta1 LoadBalancer", `{className: a, ports: [{port: 80}]}`, `{className: a, ports: [{port: 81}]}`, ""},
		{"Cluster changed", "cluster.x-k8s.io/v1beta1 ClusterEndpoint", `{cluster: a, host: a.example, port: 1, type: apiserver}`, `{cluster: b, host: a.example, port: 1, type: apiserver}`, "cluster is immutable: delete the ClusterEndpoint"},
		{"endpoint changed", "cluster.x-k8s.io/v1beta1 ClusterEndpoint", `{cluster: a, host: a.example, port: 1, type: apiserver}`, `{cluster: a, host: "fd00::7", port: 2, type: ExternalControlPlaneEndpoint, primary: true}`, ""},
		{"host exchanged for a Service", "cluster.x-k8s.io/v1beta1 ClusterEndpoint", `{cluster: a, host: a.example, port: 1, type: apiserver}`, `{cluster: a, serviceRef: {name: api}, type: apiserver}`, ""},
		{"Service changed", "cluster.x-k8s.io/v1beta1 ClusterEndpoint", `{cluster: a, serviceRef: {name: api}, type: apiserver}`, `{cluster: a, serviceRef: {name: other, port: https}, type: apiserver}`, ""},
		{"host beside a Service", "cluster.x-k8s.io/v1beta1 ClusterEndpoint", `{cluster: a, serviceRef: {name: api, port: 6443}, type: apiserver}`, `{cluster: a, host: a.example, port: 1, serviceRef: {name: api, port: 6443}, type: apiserver}`, "exclude each other: keep one of the two"},
		{"granularity changed", "fairlead.dev/v1alpha1 AddressPool", `{ranges: [192.0.2.0/26]}`, `{ranges: [192.0.2.0/26], granularity: Port}`, "granularity is immutable: create another pool"},
		{"granularity removed", "fairlead.dev/v1alpha1 AddressPool", `{ranges: [192.0.2.0/26], granularity: Port}`, `{ranges: [192.0.2.0/26]}`, "granularity is immutable"},
		{"granularity written out", "fairlead.dev/v1alpha1 AddressPool", `{ranges: [192.0.2.0/26]}`, `{ranges: [192.0.2.0/26], granularity: Address}`, ""},
		{"ranges exchanged for hosts", "fairlead.dev/v1alpha1 AddressPool", `{ranges: [192.0.2.0/26]}`, `{proxyHosts: {pool: edge, ports: 1-2}}`, "ranges and proxyHosts can't be exchanged: create another pool"},
		{"pool of hosts changed", "fairlead.dev/v1alpha1 AddressPool", `{proxyHosts: {pool: edge, ports: 1-2}}`, `{proxyHosts: {pool: core, ports: 1-2}}`, "pool is immutable: create another AddressPool"},
		{"ranges changed", "fairlead.dev/v1alpha1 AddressPool", `{ranges: [192.0.2.0/26]}`, `{ranges: [192.0.2.0/25]}`, ""},
		{"load balancer of others changed", "fairlead.dev/v1alpha1 LoadBalancerClass", `{hooksOnly: {infrastructureRef: {kind: K, name: a}}}`, `{hooksOnly: {infrastructureRef: {kind: K, name: b}}}`, "spec.hooksOnly.infrastructureRef: Invalid value: infrastructureRef is immutable: create another LoadBalancerClass"},
		{"load balancer of others taken away", "fairlead.dev/v1alpha1 LoadBalancerClass", `{hooksOnly: {infrastructureRef: {kind: K, name: a}}}`, `{proxy: {pool: edge}, addressPools: [public]}`, "hooksOnly can't be taken away"},
		{"load balancer of others, another group", "fairlead.dev/v1alpha1 LoadBalancerClass", `{hooksOnly: {infrastructureRef: {kind: K, name: a}}}`, `{hooksOnly: {infrastructureRef: {apiGroup: g.example, kind: K, name: a}}}`, "infrastructureRef is immutable"},
		{"a Service exchanged for others", "fairlead.dev/v1alpha1 LoadBalancerClass", `{service: {type: ClusterIP}}`, `{hooksOnly: {infrastructureRef: {kind: K, name: a}}}`, ""},
		{"defaults beside others changed", "fairlead.dev/v1alpha1 LoadBalancerClass", `{hooksOnly: {infrastructureRef: {kind: K, name: a}}}`, `{hooksOnly: {infrastructureRef: {kind: K, name: a}}, defaults: {drainTimeout: 1m}}`, ""},
		{"namespace changed", "fairlead.dev/v1alpha1 Tenant", `{namespace: one}`, `{namespace: two}`, "spec.namespace is immutable: create another Tenant"},
		{"namespace set", "fairlead.dev/v1alpha1 Tenant", `{}`, `{namespace: two}`, "spec.namespace is immutable"},
		{"namespace removed", "fairlead.dev/v1alpha1 Tenant", `{namespace: one}`, `{}`, "spec.namespace is immutable"},
		{"spec with the namespace removed", "fairlead.dev/v1alpha1 Tenant", `{namespace: one}`, `null`, "spec.namespace is immutable"},
		{"namespace written out", "fairlead.dev/v1alpha1 Tenant", `{}`, `{namespace: subject}`, ""},
		{"pool changed", "fairlead.dev/v1alpha1 Proxy", `{pool: edge}`, `{pool: core}`, "pool is immutable: delete the Proxy"},
		{"zone changed", "fairlead.dev/v1alpha1 Proxy", `{pool: edge, zone: a}`, `{pool: edge, zone: b}`, ""},
		{"address changed", "fairlead.dev/v1alpha1 Address", `{address: 192.0.2.1, pool: p, phase: Granted}`, `{address: 192.0.2.2, pool: p, phase: Granted}`, "address is immutable"},
		{"phase changed", "fairlead.dev/v1alpha1 Address", `{address: 192.0.2.1, pool: p, phase: Granted}`, `{address: 192.0.2.1, pool: p, phase: Releasing}`, ""},
	}
}

// What may not change once it is there, and what may.
func testImmutability(t *testing.T, h *hub) {
	for _, test := range changes() {
		t.Run(test.name, func(t *testing.T) {
			version, kind, _ := strings.Cut(test.kind, " ")
			manifest := func(spec string) *unstructured.Unstructured {
				return parse(t, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: subject}\nspec: %s", version, kind, spec))
			}
			namespace := h.namespace(t)
			next := h.createWithStatus(t, namespace, manifest(test.before)).DeepCopy()
			next.Object["spec"] = manifest(test.after).Object["spec"]
			if next.Object["spec"] == nil {
				delete(next.Object, "spec")
			}
			_, err := h.resource(t, next, namespace).Update(t.Context(), next, metav1.UpdateOptions{})
			if test.says != "" {
				checkRefused(t, err, test.says)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// The server fills in a port's protocol and nothing else: all other defaults are
// inputs of build, so that a class's change reaches who left a field out.
func testDefaults(t *testing.T, h *hub) {
	namespace := h.namespace(t)
	h.createWithStatus(t, namespace, parse(t, "apiVersion: cluster.x-k8s.io/v1alpha4\nkind: LoadBalancer\nmetadata: {name: x}\nspec: {ports: [{port: 80}], healthCheck: {type: TCP}, machineHooks: {}, endpoint: {}, selector: {}}"))
	var lb clusterv1.LoadBalancer
	h.get(t, namespace, "x", &lb)
	equalYAML(t, lb.Spec, clusterv1.LoadBalancerSpec{
		Ports:        []clusterv1.Port{{Port: 80, Protocol: clusterv1.ProtocolTCP}},
		HealthCheck:  &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP},
		MachineHooks: &clusterv1.MachineHooks{},
		Endpoint:     &clusterv1.Endpoint{},
		Selector:     &metav1.LabelSelector{},
	})
}

// Unknown fields are told of, not swallowed: kubectl asks for strict validation.
func testUnknownFields(t *testing.T, h *hub) {
	u := parse(t, "apiVersion: cluster.x-k8s.io/v1beta1\nkind: LoadBalancer\nmetadata: {name: x}\nspec: {portz: []}")
	_, err := h.resource(t, u, h.namespace(t)).Create(t.Context(), u, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.portz"`) {
		t.Error(err)
	}
}

// A value that Go can't decode is refused whichever way it comes.
func testWritePaths(t *testing.T, h *hub) {
	for _, version := range []string{"v1beta1", "v1alpha4"} {
		for _, test := range []struct {
			field string
			value any
			sub   []string
		}{
			{"spec.drainTimeout", "1d", nil},
			{"spec.healthCheck", map[string]any{"type": "TCP", "interval": "1d"}, nil},
			{"status.targets", []any{map[string]any{"name": "a", "since": "2026-01-02t03:04:05z"}}, []string{"status"}},
			{"status.conditions", []any{map[string]any{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": []any{}}}, []string{"status"}},
			{"status.ports", []any{map[string]any{"port": int64(1) << 31, "protocol": "TCP"}}, []string{"status"}},
		} {
			namespace := h.namespace(t)
			u := h.createWithStatus(t, namespace, parse(t, "apiVersion: cluster.x-k8s.io/"+version+"\nkind: LoadBalancer\nmetadata: {name: x}\nspec: {}\nstatus: {}"))
			r := h.resource(t, u, namespace)
			for how, write := range writes(u, strings.Split(test.field, "."), test.value, test.sub) {
				t.Run(version+" "+test.field+" by "+how, func(t *testing.T) {
					if err := write(t.Context(), r); !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !isTypeError(err) {
						t.Errorf("not refused: %v", err)
					}
				})
			}
		}
	}
}

// isTypeError: server-side apply refuses what isn't of the schema's type with a plain error.
func isTypeError(err error) bool {
	return err != nil && strings.Contains(err.Error(), "failed to create typed patch object")
}

type write = func(context.Context, dynamic.ResourceInterface) error

// writes are the ways to set a field of u, or of a subresource.
func writes(u *unstructured.Unstructured, field []string, value any, sub []string) map[string]write {
	changed := u.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, value, field...); err != nil {
		panic(err)
	}
	partial := map[string]any{}
	if err := unstructured.SetNestedField(partial, value, field...); err != nil {
		panic(err)
	}
	patch := func(kind types.PatchType, body any, o metav1.PatchOptions) write {
		return func(ctx context.Context, r dynamic.ResourceInterface) error {
			b, err := json.Marshal(body)
			if err != nil {
				return err
			}
			_, err = r.Patch(ctx, u.GetName(), kind, b, o, sub...)
			return err
		}
	}
	apply := map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": map[string]any{"name": u.GetName()}, field[0]: partial[field[0]]}
	force := true
	out := map[string]write{
		"put": func(ctx context.Context, r dynamic.ResourceInterface) error {
			_, err := r.Update(ctx, changed, metav1.UpdateOptions{}, sub...)
			return err
		},
		"merge patch":       patch(types.MergePatchType, partial, metav1.PatchOptions{}),
		"json patch":        patch(types.JSONPatchType, []any{map[string]any{"op": "add", "path": "/" + strings.Join(field, "/"), "value": value}}, metav1.PatchOptions{}),
		"server-side apply": patch(types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "test", Force: &force}),
	}
	if sub == nil {
		out["post"] = func(ctx context.Context, r dynamic.ResourceInterface) error {
			another := changed.DeepCopy()
			another.SetName("another")
			another.SetResourceVersion("")
			_, err := r.Create(ctx, another, metav1.CreateOptions{})
			return err
		}
	}
	return out
}

// The old version is the new one under another name.
func TestVersionsAreOneSchema(t *testing.T) {
	for _, d := range definitions(t) {
		if d.Spec.Names.Kind != "LoadBalancer" {
			continue
		}
		if len(d.Spec.Versions) != 2 {
			t.Fatalf("%d versions", len(d.Spec.Versions))
		}
		a, b := d.Spec.Versions[0], d.Spec.Versions[1]
		if a.Name != "v1beta1" || !a.Storage || b.Name != "v1alpha4" || b.Storage || !b.Served || b.Deprecated {
			t.Errorf("versions are %v and %v", a.Name, b.Name)
		}
		if !reflect.DeepEqual(a.Schema, b.Schema) || !reflect.DeepEqual(a.AdditionalPrinterColumns, b.AdditionalPrinterColumns) {
			t.Error("the versions differ")
		}
	}
}
