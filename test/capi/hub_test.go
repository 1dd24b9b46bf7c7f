package capi_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// soon bounds what should take a moment; it is never a claim.
	soon = 2 * time.Minute
	// edge is the class, the pool of proxies and the AddressPool that all is served by.
	edge = "edge"
	// served is what load balancers get addresses of.
	served = "127.78.0.0/24"
)

// hub is a management cluster: Cluster API's own programs, our manager, and a proxy.
type hub struct {
	*testkit.ControlPlane
	t      *testing.T
	api    client.Client
	scheme *runtime.Scheme
}

func newHub(t *testing.T) *hub {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	h := &hub{t: t, ControlPlane: kubetest.Start(t, testkit.Options{Name: "hub"}), scheme: runtime.NewScheme()}
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, capiv1.AddToScheme, kcpv1.AddToScheme,
	} {
		if err := add(h.scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if h.api, err = client.New(h.RESTConfig(), client.Options{Scheme: h.scheme}); err != nil {
		t.Fatal(err)
	}
	h.startProviders()
	h.startFairlead()
	return h
}

// in is the same hub in a test of its own.
func (h *hub) in(t *testing.T) *hub {
	same := *h
	same.t = t
	return &same
}

// startFairlead starts our manager and one proxy, each with the rights that it gets where it is installed.
func (h *hub) startFairlead() {
	h.t.Helper()
	ctx, cfg := h.t.Context(), h.RESTConfig()
	if err := errors.Join(crd.Install(ctx, cfg), rbac.InstallHub(ctx, cfg), rbac.InstallClusterAPI(ctx, cfg)); err != nil {
		h.t.Fatal(err)
	}
	program := fairlead(h.t)
	kubetest.StartProcess(h.t, testkit.Command{Name: "manager", Path: program, Args: []string{"manager",
		"--kubeconfig=" + h.account(v1alpha1.SystemNamespace, "fairlead-manager"), "--metrics-address=127.0.0.1:9400"}})
	const proxy = "edge-1"
	h.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: proxy}},
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: edge}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{served}}},
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: edge}, Spec: v1alpha1.LoadBalancerClassSpec{
			Proxy: &v1alpha1.ClassProxy{Pool: edge}, AddressPools: []string{edge},
		}},
	)
	// A connection is tried on one member alone, as by load balancers that can't do better: nothing but the removal of members
	// from them saves a request.
	kubetest.StartProcess(h.t, testkit.Command{Name: proxy, Path: program, Args: []string{"proxy", "--name=" + proxy, "--pool=" + edge,
		"--kubeconfig=" + h.account(v1alpha1.ProxyNamespace, proxy), "--metrics-address=127.0.0.1:9401", "--connect-attempts=1"}})
}

// fairlead builds the program, for bin/fairlead may be older than what is tested. What it is built of must be there: there is no network here.
func fairlead(t testing.TB) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "fairlead")
	build := exec.Command("go", "build", "-o", out, "./cmd/fairlead")
	build.Dir = root(t)
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building fairlead: %v\n%s", err, b)
	}
	return out
}

// root is the folder of the main module.
func root(t testing.TB) string {
	t.Helper()
	dir, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// account is the kubeconfig of a ServiceAccount that is there, or will be.
func (h *hub) account(namespace, name string) string {
	h.t.Helper()
	path := ""
	kubetest.Eventually(h.t, soon, "ServiceAccount "+name, func(ctx context.Context) (err error) {
		path, err = h.ServiceAccountKubeconfig(ctx, namespace, name)
		return err
	})
	return path
}

// tenant makes a Tenant, whose targets lie in a subnet, and waits for its namespace.
func (h *hub) tenant(name string, targets netip.Prefix) {
	h.t.Helper()
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{targets.String()}, DefaultClass: edge}}
	h.create(tn)
	wait(h.t, h.api, tn, soon, "Ready", func(tn *v1alpha1.Tenant) error { return isTrue(tn.Status.Conditions, "Ready") })
}

// operators makes a namespace of no Tenant, as Machines may be held in alone, and has load balancers there be served.
func (h *hub) operators(name, addresses string) {
	h.t.Helper()
	h.create(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{
			Ranges: []string{addresses}, Use: &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}},
		}},
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LoadBalancerClassSpec{
			Proxy: &v1alpha1.ClassProxy{Pool: edge}, AddressPools: []string{name},
		}},
	)
}

// create waits for what objects need: their kind, their namespace, a webhook.
func (h *hub) create(objects ...client.Object) {
	h.t.Helper()
	for _, o := range objects {
		kubetest.Eventually(h.t, soon, fmt.Sprintf("creating %s", nameOf(o)), func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(h.api.Create(ctx, o))
		})
	}
}

// wait reads an object until it is as it should be.
func wait[T client.Object](t testing.TB, api client.Reader, o T, patience time.Duration, what string, right func(T) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := testkit.Poll(ctx, 200*time.Millisecond, nameOf(o)+": "+what, func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return right(o)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func nameOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", o), "*")
	}
	return kind + " " + o.GetName()
}

// isTrue says why a condition isn't.
func isTrue(conditions []metav1.Condition, kind string) error {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s yet", kind)
	}
	if c.Status != metav1.ConditionTrue {
		return fmt.Errorf("%s is %s/%s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}
