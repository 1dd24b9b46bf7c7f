package providers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	fooconfig "fairlead.dev/fairlead/examples/foo-provider/config"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/webhook"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// like has the Foo cloud's controller serve a kind of a cloud that doesn't run here, under the name that the proposal prints. What it doesn't know of spec it leaves alone.
func (h *hub) like(t *testing.T, kind string) {
	t.Helper()
	b, err := fooconfig.Manifests.ReadFile("infrastructure.cluster.x-k8s.io_fooloadbalancers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd, plural := &unstructured.Unstructured{}, strings.ToLower(kind)+"s"
	if err := yaml.Unmarshal(b, &crd.Object); err != nil {
		t.Fatal(err)
	}
	crd.SetName(plural + "." + api.GroupVersion.Group)
	spec := crd.Object["spec"].(map[string]any)
	spec["names"] = map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)}
	h.define(t, takesAnything(t, crd))
	if err := testkit.Create(t.Context(), h.control.RESTConfig(), fstest.MapFS{"role.yaml": {Data: []byte(fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s, labels: {fairlead.dev/aggregate-to-manager: "true"}}
rules: [{apiGroups: [%[2]s], resources: [%[1]s], verbs: [get, list, watch, create, patch, delete]}]`, plural, api.GroupVersion.Group))}}); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(api.GroupVersion.WithKind(kind), &api.FooLoadBalancer{})
	scheme.AddKnownTypeWithName(api.GroupVersion.WithKind(kind+"List"), &api.FooLoadBalancerList{})
	metav1.AddToGroupVersion(scheme, api.GroupVersion)
	cfg := h.control.RESTConfig()
	cfg.QPS, cfg.Burst = -1, -1
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}, // the test may run again
	})
	if err := errors.Join(err, provider.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	o := foo.Options(nil)
	if o.Provider, err = webhook.New(webhook.Options{URL: "http://" + h.at(198, 9090)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := provider.Setup(ctx, mgr, o); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// printedTypes: the Cluster, control plane and LoadBalancer that are printed by themselves are one story, with an object of the last
// example. The endpoint that the Cluster has is the LoadBalancer's, goes down to the provider before anything is outside, and stays.
func printedTypes(t *testing.T, h *hub) {
	const name = "new-types"
	h.namespace(t, name)
	given := clusterv1.Endpoint{Host: "test.example.com", Port: 443}
	all := slices.Concat(h.printed(t, name, "cluster"), h.printed(t, name, "control-plane"), h.printed(t, name, "new-types"))
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(api.GroupVersion.Group + "/v1alpha4")
	object.SetKind("AWSNetworkLoadBalancer")
	object.SetNamespace(name)
	object.SetName("my-cluster-control-plane-nlb")
	h.create(t, object)
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: printedBalancer}}
	machine := h.newMachine(t, name, "my-cluster", "a", 240)
	says(t, h, l, "Ready=True/Ready", "EndpointPublished=True/Published", "LBExists=True/AsExpected")
	h.areActive(t, l, machine)
	h.hasEndpoint(t, object, "endpoint", given)
	h.hasEndpoint(t, of(t, "Cluster", all), "controlPlaneEndpoint", given)
	remaining := []client.Object{l, object}
	for _, u := range all {
		if u.GetKind() != "LoadBalancer" {
			remaining = append(remaining, u)
		}
	}
	h.remove(t, []*unstructured.Unstructured{machine}, remaining...)
}

// printedMachineService: the alternative with a Service. The Service that the manager makes says what the printed one says, its endpoints
// are the Machines', and the address that the hub's implementation gives it, whose part the test plays, is the Cluster's endpoint.
func printedMachineService(t *testing.T, h *hub) {
	const name = "machine-service"
	h.namespace(t, name)
	h.create(t, &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "hub-service"}, Spec: v1alpha1.LoadBalancerClassSpec{
		Service: &v1alpha1.ClassService{Type: string(corev1.ServiceTypeLoadBalancer)},
	}})
	all := slices.Concat(h.printed(t, name, "machine-service"), h.printed(t, name, "machine-service-cluster"))
	machine := h.newMachine(t, name, "my-app", "a", 240)
	wait(t, h, machine, "given an address outside of this host", func(m *unstructured.Unstructured) error {
		m.Object["status"] = map[string]any{"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}}}
		return h.api.Status().Update(t.Context(), m)
	})
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "control-plane-lb"}}
	wait(t, h, s, "made as it is printed", func(s *corev1.Service) error {
		if p := s.Spec.Ports; s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Spec.Selector) > 0 || len(p) != 1 || p[0].Port != 443 || p[0].TargetPort.IntValue() != 6443 || p[0].Protocol != corev1.ProtocolTCP {
			return fmt.Errorf("it is %+v", s.Spec)
		}
		if o := metav1.GetControllerOf(s); o == nil || o.Kind != "LoadBalancer" || o.Name != s.Name {
			return fmt.Errorf("its owners are %+v", s.OwnerReferences)
		}
		return nil
	})
	wait(t, h, s, "to have an address", func(s *corev1.Service) error {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.77"}}
		return h.api.Status().Update(t.Context(), s)
	})
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "control-plane-lb"}}
	says(t, h, l, "Ready=True/Ready", "EndpointPublished=True/Published")
	h.areActive(t, l, machine)
	h.hasEndpoint(t, of(t, "Cluster", all), "controlPlaneEndpoint", clusterv1.Endpoint{Host: "192.0.2.77", Port: 443})
	endpoints := &discoveryv1.EndpointSliceList{}
	if err := h.api.List(t.Context(), endpoints, client.InNamespace(name), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name}); err != nil {
		t.Fatal(err)
	}
	if len(endpoints.Items) != 1 || len(endpoints.Items[0].Endpoints) != 1 || endpoints.Items[0].Endpoints[0].Addresses[0] != "10.0.0.1" || *endpoints.Items[0].Ports[0].Port != 6443 {
		t.Errorf("its endpoints are %+v", endpoints.Items)
	}
	h.remove(t, []*unstructured.Unstructured{machine}, l, of(t, "Cluster", all))
}

// printedEndpoints: each of the two ClusterEndpoints surfaces on its Cluster.
func printedEndpoints(t *testing.T, h *hub) {
	const name = "endpoints"
	h.namespace(t, name)
	for file, cluster := range map[string]string{"endpoint-name": "my-cluster", "endpoint-address": "my-cluster-2"} {
		c := prod(name)
		c.SetName(cluster)
		h.create(t, c)
		e := h.printed(t, name, file)[0]
		host, _, err := unstructured.NestedString(e.Object, "spec", "host")
		if err != nil || host == "" {
			t.Fatalf("%s has the host %q, %v", file, host, err)
		}
		h.hasEndpoint(t, c, "controlPlaneEndpoint", clusterv1.Endpoint{Host: host, Port: 1234})
		wait(t, h, &clusterv1.ClusterEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: e.GetName()}}, "surfaced", func(e *clusterv1.ClusterEndpoint) error {
			return is(e.Status.Conditions, clusterv1.ConditionSurfaced, metav1.ConditionTrue, clusterv1.ReasonSurfaced)
		})
	}
}
