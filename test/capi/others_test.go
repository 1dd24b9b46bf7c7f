package capi_test

import (
	"net/netip"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	fooconfig "fairlead.dev/fairlead/examples/foo-provider/config"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applyDelay is how long the Foo cloud takes for a change of members.
const applyDelay = 5 * time.Second

// foo serves by foo-provider's objects, which a class makes from a template.
var foo = dataPlane{name: "foo", serve: func(h *hub, class string) v1alpha1.LoadBalancerClassSpec {
	t := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	t.SetGroupVersionKind(api.GroupVersion.WithKind("FooLoadBalancerTemplate"))
	t.SetNamespace(v1alpha1.SystemNamespace)
	t.SetName(class)
	h.create(t)
	return v1alpha1.LoadBalancerClassSpec{InfrastructureTemplate: &clusterv1.ObjectReference{
		APIGroup: api.GroupVersion.Group, Kind: t.GetKind(), Name: class,
	}}
}}

// fooCloud is where the Foo cloud is asked.
const fooCloud = "127.0.0.1:9500"

// startFooCloud starts the one that foo-providers speak to.
func startFooCloud(t testing.TB) {
	t.Helper()
	kubetest.StartProcess(t, testkit.Command{Name: "the Foo cloud", Path: build(t, "examples/foo-provider"), Args: []string{
		"--serve=" + fooCloud, "--addresses=127.80.0.0/24", "--apply-delay=" + applyDelay.String(),
	}})
}

// startFooProvider installs foo-provider, and starts it with its rights.
func (h *hub) startFooProvider() {
	h.t.Helper()
	if err := testkit.Create(h.t.Context(), h.RESTConfig(), fooconfig.Manifests); err != nil {
		h.t.Fatal(err)
	}
	kubetest.StartProcess(h.t, testkit.Command{Name: "foo-provider", Path: build(h.t, "examples/foo-provider"), Args: []string{
		"--kubeconfig=" + h.account("foo-provider-system", "foo-provider"), "--webhook=http://" + fooCloud,
	}})
}

// service serves by Services of the hub, which the real kube-proxy of this host sends to Machines. It learns of a change at most once a
// second, as it is by default, and says of none that it has: that time, and more where the machine is busy, must have passed.
var service = dataPlane{
	name: "service", machines: machinesOfServices, leaves: 10 * time.Second,
	serve: func(*hub, string) v1alpha1.LoadBalancerClassSpec {
		return v1alpha1.LoadBalancerClassSpec{Service: &v1alpha1.ClassService{Type: string(corev1.ServiceTypeClusterIP)}}
	},
}

// machinesOfServices are no addresses of loopback's: those are no endpoints that an EndpointSlice may have.
const machinesOfServices = "198.18.%d.0/24"

// startKubeProxy starts kube-proxy for a Node of this host.
func (h *hub) startKubeProxy() {
	h.t.Helper()
	const node = "host"
	h.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: netip.MustParsePrefix(lan).Addr().String()},
	}}})
	p, err := h.StartKubeProxy(h.t.Context(), testkit.KubeProxy{Node: node})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			h.t.Error(err)
		}
	})
}
