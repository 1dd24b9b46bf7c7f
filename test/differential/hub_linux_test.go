package differential_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

const (
	tenantName  = "prod"
	metricsPort = 9400
)

// Prefixes, IPv4's and IPv6's.
var (
	// served is what MetalLB gives addresses of.
	served = []netip.Prefix{netip.MustParsePrefix("10.70.0.0/24"), netip.MustParsePrefix("fd00:70::/120")}
	// clusterIPs are the hub's.
	clusterIPs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/112")}
	// hubPodCIDRs are where the hub's Pods are.
	hubPodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.245.0.0/16"), netip.MustParsePrefix("fd00:10:245::/48")}
)

// cluster is a control plane, and a client that may do everything.
type cluster struct {
	t testing.TB
	*testkit.ControlPlane
	api client.Client
}

func startCluster(t testing.TB, name string) *cluster {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{t: t, ControlPlane: kubetest.Start(t, testkit.Options{Name: name, DualStack: true, ControllerFlags: []string{"--node-monitor-grace-period=1h"}})}
	var err error
	if c.api, err = client.New(c.RESTConfig(), client.Options{Scheme: s}); err != nil {
		t.Fatal(err)
	}
	return c
}

// node registers the host of a number as its kubelet would.
func (c *cluster) node(name string, number int) {
	c.t.Helper()
	c.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address(number)}, {Type: corev1.NodeInternalIP, Address: address6(number)},
		},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}})
}

// create waits for what an object needs: its namespace's account, its kind.
func (c *cluster) create(o client.Object) {
	c.t.Helper()
	kubetest.Eventually(c.t, soon, fmt.Sprintf("creating %T %s in %s", o, o.GetName(), c.Name()), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.api.Create(ctx, o))
	})
}

func (c *cluster) createText(text string) {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		c.t.Fatal(err)
	}
	c.create(u)
}

// account is the kubeconfig of a ServiceAccount that is there, or will be.
func (c *cluster) account(namespace, name string) string {
	c.t.Helper()
	path := ""
	kubetest.Eventually(c.t, soon, "account "+name+" of "+c.Name(), func(ctx context.Context) (err error) {
		path, err = c.ServiceAccountKubeconfig(ctx, namespace, name)
		return err
	})
	return path
}

func (c *cluster) metrics() string {
	a := c.Subnet().Addr().As4()
	a[3] = 200
	return netip.AddrPortFrom(netip.AddrFrom4(a), metricsPort).String()
}

// fairlead builds the program: bin/fairlead may be older than what is tested.
func fairlead(t testing.TB) string {
	t.Helper()
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "fairlead")
	build := exec.Command("go", "build", "-o", out, "./cmd/fairlead")
	build.Dir = root
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fairlead: %v\n%s", err, b)
	}
	return out
}

// startFairlead starts a manager in the hub and an agent in the tenant's cluster, each with its own rights.
func startFairlead(t testing.TB, hub, tenant *cluster) {
	t.Helper()
	program := fairlead(t)
	if err := errors.Join(crd.Install(t.Context(), hub.RESTConfig()), rbac.InstallHub(t.Context(), hub.RESTConfig()),
		rbac.InstallTenant(t.Context(), tenant.RESTConfig())); err != nil {
		t.Fatal(err)
	}
	kubetest.StartProcess(t, testkit.Command{Name: "manager", Path: program, Args: []string{"manager",
		"--kubeconfig=" + hub.account(v1alpha1.SystemNamespace, "fairlead-manager"), "--metrics-address=" + hub.metrics()}})
	for name, kind := range map[string]corev1.ServiceType{"hub": corev1.ServiceTypeLoadBalancer, "inside": corev1.ServiceTypeClusterIP} {
		hub.createText(fmt.Sprintf(`{apiVersion: fairlead.dev/v1alpha1, kind: LoadBalancerClass, metadata: {name: %s}, spec: {service: {type: %s}}}`, name, kind))
	}
	hub.createText(`{apiVersion: fairlead.dev/v1alpha1, kind: Tenant, metadata: {name: ` + tenantName + `}, spec: {targetCIDRs: [10.20.0.0/24, "fd00:20::/64"]}}`)
	kubetest.StartProcess(t, testkit.Command{Name: "agent", Path: program, Args: []string{"agent", "--tenant=" + tenantName,
		"--hub-kubeconfig=" + hub.account(tenantName, v1alpha1.AgentServiceAccount),
		"--kubeconfig=" + tenant.account(v1alpha1.SystemNamespace, "fairlead-agent"), "--metrics-address=" + tenant.metrics()}})
}

// startMetalLB starts its controller on a host of its own: it listens on all interfaces.
func startMetalLB(t testing.TB, n *network, hub *cluster) {
	t.Helper()
	const namespace, pod = "metallb-system", "controller"
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := filepath.Glob(filepath.Join(root, "bin", "metallb", "crd", "*.yaml"))
	if err != nil || len(kinds) == 0 {
		t.Fatalf("MetalLB is not built; run `make metallb` (%v)", err)
	}
	for _, kind := range kinds {
		text, err := os.ReadFile(kind)
		if err != nil {
			t.Fatal(err)
		}
		hub.createText(string(text))
	}
	hub.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	// It writes its status for the Pod that it runs in.
	hub.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}, Spec: corev1.PodSpec{
		NodeName: "hub-1", Containers: []corev1.Container{{Name: "controller", Image: "any"}},
	}})
	host := n.Namespace("metallb")
	n.whole()
	n.reaches(host, hub.ControlPlane)
	kubetest.StartProcess(t, testkit.Command{Name: "metallb", Path: filepath.Join(root, "bin", "metallb", "controller"), Host: host,
		Env: []string{"METALLB_POD_NAME=" + pod}, Args: []string{
			"--kubeconfig=" + hub.Kubeconfig(), "--namespace=" + namespace, "--webhook-mode=disabled", "--disable-cert-rotation", "--port=7472", "--health-probe-port=7473",
		}})
	hub.createText(`{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: public, namespace: ` + namespace + `}, spec: {addresses: ["` + served[0].String() + `", "` + served[1].String() + `"]}}`)
}
