// foo-provider is held to the suite here, under the rights that it is installed with, on a
// real API server.
package providertest_test

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/examples/foo-provider/config"
	"fairlead.dev/fairlead/examples/foo-provider/foo"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"fairlead.dev/fairlead/provider"
	"fairlead.dev/fairlead/provider/providertest"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const targetPort = 9000

func TestFooProvider(t *testing.T) {
	hub, controller := newHub(t)
	cloud := newCloud(t, hub)
	asPrinted(t, hub)
	suite(hub, controller, foo.Options(cloud), here(t, hub)).Run(t)
	if !t.Failed() {
		onlyItsOwn(t, hub)
	}
}

// newHub is an API server with foo-provider's kinds, and the identity that it is installed with.
func newHub(t *testing.T) (*testkit.ControlPlane, *rest.Config) {
	t.Helper()
	hub := kubetest.Start(t, testkit.Options{Name: "hub", Audit: true})
	if err := testkit.Create(t.Context(), hub.RESTConfig(), config.Manifests); err != nil {
		t.Fatal(err)
	}
	ctrl.SetLogger(logr.Discard()) // what went wrong is in conditions
	return hub, identity(t, hub)
}

func newCloud(t *testing.T, hub *testkit.ControlPlane) *balancer.Cloud {
	t.Helper()
	cloud := balancer.New(balancer.Options{Addresses: netip.PrefixFrom(host(hub, 200), 29)})
	t.Cleanup(cloud.Close)
	return cloud
}

// place is what a suite may use of a network.
type place struct {
	// members take connections at a port.
	members []string
	port    int32
	// first is the first of the endpoints; the others have the next addresses.
	first netip.AddrPort
}

// here is on this host.
func here(t *testing.T, hub *testkit.ControlPlane) place {
	t.Helper()
	p := place{port: targetPort, first: netip.AddrPortFrom(host(hub, 101), 7443)}
	for n := byte(240); n < 243; n++ {
		p.members = append(p.members, listen(t, host(hub, n)))
	}
	return p
}

// suite is of a provider of FooLoadBalancers, wherever it is.
func suite(hub *testkit.ControlPlane, controller *rest.Config, o provider.Options, at place) providertest.Suite {
	var mu sync.Mutex
	next := at.first.Addr()
	return providertest.Suite{
		Config: hub.RESTConfig(), ControllerConfig: controller, Options: o, AddToScheme: api.AddToScheme,
		New: func() provider.Object { return &api.FooLoadBalancer{} },
		Endpoint: func() clusterv1.Endpoint {
			mu.Lock()
			defer mu.Unlock()
			e := clusterv1.Endpoint{Host: next.String(), Port: int32(at.first.Port())}
			next = next.Next()
			return e
		},
		Members: at.members, TargetPort: at.port,
	}
}

// asPrinted: the proposal's own manifest is taken, and says nothing of the endpoint.
func asPrinted(t *testing.T, hub *testkit.ControlPlane) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(hub.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(printed), &u.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	o := &api.FooLoadBalancer{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), o); err != nil {
		t.Fatal(err)
	}
	if e := o.Spec.Endpoint; e != nil && *e != (clusterv1.Endpoint{}) {
		t.Errorf("spec.endpoint is %v", e)
	}
	if err := c.Delete(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

const printed = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha4
kind: FooLoadBalancer
metadata:
  name: my-cluster-control-plane-foo
  namespace: default
spec:
  endpoint:
    host:
    port:
`

// host is the n-th address of the hub's own loopback subnet.
func host(hub *testkit.ControlPlane, n byte) netip.Addr {
	a := hub.Subnet().Addr().As4()
	a[3] = n
	return netip.AddrFrom4(a)
}

// listen takes connections at an address until the test ends.
func listen(t *testing.T, a netip.Addr) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(a.String(), strconv.Itoa(targetPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test ends
			}
			c.Close()
		}
	}()
	return a.String()
}

// identity is the ServiceAccount that foo-provider is installed with.
func identity(t *testing.T, hub *testkit.ControlPlane) *rest.Config {
	t.Helper()
	file, err := hub.ServiceAccountKubeconfig(t.Context(), "foo-provider-system", "foo-provider")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// onlyItsOwn: the provider wrote objects of its kind and events, and was denied nothing.
func onlyItsOwn(t *testing.T, hub *testkit.ControlPlane) {
	t.Helper()
	all, _, err := hub.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	wrote := 0
	for _, w := range all {
		if !strings.HasSuffix(w.User, ":foo-provider") {
			continue
		}
		wrote++
		if w.StatusCode == http.StatusForbidden {
			t.Errorf("foo-provider may not %s %s %s", w.Verb, w.Resource, w.Name)
		}
		if kind, _, _ := strings.Cut(w.Resource, "/"); kind != "fooloadbalancers" && kind != "events" {
			t.Errorf("foo-provider wrote %s %s: the security model has a provider write its own kind only", w.Resource, w.Name)
		}
	}
	if wrote == 0 {
		t.Error("the audit log has no write of foo-provider")
	}
}
