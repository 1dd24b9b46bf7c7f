package capi_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
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
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	kcpv1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// soon bounds what should take a moment; it is never a claim.
	soon = 2 * time.Minute
)

// dataPlane is one that stories are told over. It has a pool of one proxy, a class and an AddressPool, all of its name; or, as those of
// others_test.go, no proxy, but classes that others serve.
type dataPlane struct {
	name string
	// addresses are for load balancers of Tenants.
	addresses string
	args      []string
	// serve makes the class of a name that somebody else serves; nil: proxies do.
	serve func(h *hub, class string) v1alpha1.LoadBalancerClassSpec
	// machines is the format of a world's subnet of Machines, by its number; "": one of loopback's.
	machines string
	// leaves is how long a Machine may be held after it has been taken out; 0: watchesEnd.
	leaves time.Duration
}

var dataPlanes = []dataPlane{
	// A connection is tried on one member alone, as by load balancers that can't do better: nothing but the removal of members
	// from them saves a request.
	{name: "builtin", addresses: "127.78.0.0/24", args: []string{"--metrics-address=127.0.0.1:9401", "--connect-attempts=1"}},
	{name: "nftables", addresses: "127.78.1.0/24", args: []string{"--metrics-address=127.0.0.1:9402"}},
}

// hub is a management cluster: Cluster API's own programs, our manager, and a proxy of each data plane.
type hub struct {
	*testkit.ControlPlane
	t      testing.TB
	life   testing.TB // for as long as which the hub is there
	api    client.Client
	scheme *runtime.Scheme
	// manager, or the agent where the hub is elsewhere, is started again whenever it ends, until stopManager.
	manager     *testkit.Process
	stopManager func()
	// proxies by their data plane.
	proxies map[string]*testkit.Process
	state   string // where proxies keep their files
	program string
}

func newHub(t testing.TB) *hub {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	h := startHub(t, "hub", t.TempDir())
	h.installKinds(filepath.Join(root(t), "bin", "capi", "crd"))
	h.startProviders()
	h.startFairlead(managerMetrics)
	for _, p := range dataPlanes {
		h.proxied(p)
	}
	return h
}

// proxied has a data plane's proxy run, and a class and addresses for it.
func (h *hub) proxied(p dataPlane) {
	h.t.Helper()
	h.create(
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{p.addresses}}},
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: v1alpha1.LoadBalancerClassSpec{
			Proxy: &v1alpha1.ClassProxy{Pool: p.name}, AddressPools: []string{p.name},
		}},
	)
	h.proxies[p.name] = kubetest.StartProcess(h.t, h.proxy(p))
}

// startHub starts a hub in which nothing is installed. state is where its proxies keep their files.
func startHub(t testing.TB, name, state string) *hub {
	t.Helper()
	h := &hub{
		t: t, life: t, ControlPlane: kubetest.Start(t, testkit.Options{Name: name}), scheme: runtime.NewScheme(),
		state: state, program: build(t, "cmd/fairlead"), proxies: map[string]*testkit.Process{},
	}
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, controlplanev1.AddToScheme, capiv1.AddToScheme,
		kcpv1.AddToScheme, bootstrapv1.AddToScheme,
	} {
		if err := add(h.scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if h.api, err = client.New(h.RESTConfig(), client.Options{Scheme: h.scheme}); err != nil {
		t.Fatal(err)
	}
	return h
}

// in is the same hub in a test of its own.
func (h *hub) in(t testing.TB) *hub {
	same := *h
	same.t = t
	return &same
}

// startFairlead installs our kinds and rights, and starts our manager with those that it gets where it is installed.
func (h *hub) startFairlead(metrics string) {
	h.t.Helper()
	ctx, cfg := h.t.Context(), h.RESTConfig()
	if err := errors.Join(crd.Install(ctx, cfg), rbac.InstallHub(ctx, cfg), rbac.InstallClusterAPI(ctx, cfg)); err != nil {
		h.t.Fatal(err)
	}
	h.manager = kubetest.StartProcess(h.t, testkit.Command{Name: "manager", Path: h.program, Args: []string{"manager",
		"--kubeconfig=" + h.account(v1alpha1.SystemNamespace, "fairlead-manager"), "--metrics-address=" + metrics}})
	h.stopManager = h.kept(h.manager)
}

// kept has a program run until stop is called, however often it ends.
func (h *hub) kept(p *testkit.Process) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	kept := sync.WaitGroup{}
	kept.Go(func() { keep(ctx, h.t, p) })
	return func() {
		cancel()
		kept.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			h.t.Errorf("stopping %s: %v", p.Name(), err)
		}
	}
}

// proxy is what runs the one proxy of a data plane, with the rights that it gets here.
func (h *hub) proxy(p dataPlane) testkit.Command {
	h.t.Helper()
	name := p.name + "-1"
	h.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}})
	return testkit.Command{Name: name, Path: h.program, Args: append([]string{"proxy", "--name=" + name, "--pool=" + p.name,
		"--dataplane=" + p.name, "--kubeconfig=" + h.account(v1alpha1.ProxyNamespace, name), "--state-dir=" + filepath.Join(h.state, p.name)}, p.args...)}
}

// keep starts a program again a second after it has ended, as whoever runs one for good does.
func keep(ctx context.Context, t testing.TB, p *testkit.Process) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		if err := p.Start(); err != nil {
			t.Errorf("starting %s again: %v", p.Name(), err)
			return
		}
	}
}

// build builds a program, for what is in bin may be older than what is tested. What it is built of must be there: there is no network here.
func build(t testing.TB, program string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), filepath.Base(program))
	build := exec.Command("go", "build", "-o", out, "./"+program)
	build.Dir = root(t)
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", program, err, b)
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
func (h *hub) tenant(name string, targets netip.Prefix, p dataPlane) {
	h.t.Helper()
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{targets.String()}, DefaultClass: p.name}}
	h.create(tn)
	if p.serve != nil {
		h.create(&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: p.name}, Spec: p.serve(h, p.name)})
	}
	wait(h.t, h.api, tn, soon, "Ready", func(tn *v1alpha1.Tenant) error { return isTrue(tn.Status.Conditions, "Ready") })
}

// operators makes a namespace of no Tenant, as Machines may be held in alone, and has load balancers there be served by a data plane.
func (h *hub) operators(name, addresses string, p dataPlane) {
	h.t.Helper()
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if p.serve != nil {
		h.create(&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: p.serve(h, name)})
		return
	}
	h.create(
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{
			Ranges: []string{addresses}, Use: &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}},
		}},
		&v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LoadBalancerClassSpec{
			Proxy: &v1alpha1.ClassProxy{Pool: p.name}, AddressPools: []string{name},
		}},
	)
}

// served waits until a load balancer is served, and returns where.
func (h *hub) served(l *clusterv1.LoadBalancer) netip.AddrPort {
	h.t.Helper()
	wait(h.t, h.api, l, soon, "served", func(l *clusterv1.LoadBalancer) error {
		if len(l.Status.Addresses) == 0 {
			return fmt.Errorf("it has no address: %v", whatIsWrong(l.Status.Conditions))
		}
		return isTrue(l.Status.Conditions, clusterv1.ConditionProgrammed)
	})
	address, err := netip.ParseAddr(l.Status.Addresses[0].Value)
	if err != nil {
		h.t.Fatal(err)
	}
	return netip.AddrPortFrom(address, apiServerPort)
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
