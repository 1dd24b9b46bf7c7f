package limits_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// soon is how long anything may take on a machine that is busy.
const soon = 2 * time.Minute

// program is the path of the fairlead binary that is tested.
var program string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "fairlead-limits-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	root, err := testkit.ModuleRoot()
	if err != nil {
		return 1, err
	}
	program = filepath.Join(dir, "fairlead") // bin/fairlead may be older than what is tested
	build := exec.Command("go", "build", "-o", program, "./cmd/fairlead")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building fairlead: %w\n%s", err, out)
	}
	ctrllog.SetLogger(logr.Discard()) // else controller-runtime complains, with a stack, that nobody did
	return m.Run(), nil
}

// hub is a control plane with our kinds and roles.
type hub struct {
	*testkit.ControlPlane
	t *testing.T
	// api is the administrator's client.
	api    client.Client
	scheme *runtime.Scheme
}

func startHub(t *testing.T, o testkit.Options) *hub {
	t.Helper()
	h := &hub{ControlPlane: kubetest.Start(t, o), t: t}
	if err := errors.Join(crd.Install(t.Context(), h.RESTConfig()), rbac.InstallHub(t.Context(), h.RESTConfig())); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.scheme, err = app.Scheme(); err != nil {
		t.Fatal(err)
	}
	h.api = h.client(h.RESTConfig())
	return h
}

func (h *hub) client(cfg *rest.Config) client.Client {
	h.t.Helper()
	cfg.QPS, cfg.Burst = -1, -1
	c, err := client.New(cfg, client.Options{Scheme: h.scheme})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (h *hub) create(objects ...client.Object) {
	h.t.Helper()
	for _, o := range objects {
		if err := h.api.Create(h.t.Context(), o); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hub) eventually(what string, f func(context.Context) error) {
	h.t.Helper()
	kubetest.Eventually(h.t, soon, what, f)
}

// account waits for a ServiceAccount and returns a kubeconfig of it.
func (h *hub) account(namespace, name string) string {
	h.t.Helper()
	h.eventually("the ServiceAccount "+namespace+"/"+name, func(ctx context.Context) error {
		return h.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ServiceAccount{})
	})
	path, err := h.ServiceAccountKubeconfig(h.t.Context(), namespace, name)
	if err != nil {
		h.t.Fatal(err)
	}
	return path
}

// config is a client configuration of a kubeconfig, with connections of its own.
func config(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// address is the nth of the hub's own loopback addresses; 100 and on are the pool's.
func (h *hub) address(n byte) netip.Addr {
	b := h.Subnet().Addr().As4()
	b[3] = n
	return netip.AddrFrom4(b)
}

const pool, class = "public", "edge"

// basics makes a pool of addresses, a class, and Tenants.
func (h *hub) basics(tenants ...*v1alpha1.Tenant) {
	h.t.Helper()
	h.create(
		&v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: pool}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{h.address(100).String() + "-" + h.address(199).String()}}},
		&v1alpha1.LoadBalancerClass{
			ObjectMeta: metav1.ObjectMeta{Name: class, Annotations: map[string]string{v1alpha1.AnnotationDefaultClass: "true"}},
			Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}, AddressPools: []string{pool}},
		},
	)
	for _, tn := range tenants {
		h.create(tn)
	}
}

func tenant(name string, quota *v1alpha1.TenantQuota) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"127.0.0.0/8"}, Quota: quota}}
}

// kept starts a command that is started again a second after it ends, as systemd or a Deployment would do.
func kept(t *testing.T, c testkit.Command) *testkit.Process {
	t.Helper()
	p := kubetest.StartProcess(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
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
			if p.Start() != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return p
}

// manager starts the manager, which uses that kubeconfig.
func (h *hub) manager(kubeconfig string) *testkit.Process {
	h.t.Helper()
	return kept(h.t, testkit.Command{Name: "manager", Path: program, Args: []string{"manager", "--kubeconfig=" + kubeconfig, "--metrics-address="}})
}

// managerAccount is the manager's own kubeconfig.
func (h *hub) managerAccount() string { return h.account(v1alpha1.SystemNamespace, "fairlead-manager") }

// proxyAccount makes a proxy's identity.
func (h *hub) proxyAccount(name string) string {
	h.t.Helper()
	h.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}})
	return h.account(v1alpha1.ProxyNamespace, name)
}

// proxyCommand is a proxy's.
func (h *hub) proxyCommand(name, kubeconfig, state string, flags ...string) testkit.Command {
	return testkit.Command{Name: name, Path: program, Args: append([]string{
		"proxy", "--name=" + name, "--pool=edge", "--kubeconfig=" + kubeconfig, "--state-dir=" + state, "--metrics-address=",
	}, flags...)}
}

// loadBalancer is one of a tenant, with the targets of its namespace.
func loadBalancer(namespace, name string, target netip.AddrPort) *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{clusterv1.Finalizer}},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: class, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
			Ports: []clusterv1.Port{{Name: "http", Protocol: clusterv1.ProtocolTCP, Port: 8080, TargetPort: int32(target.Port())}},
		},
	}
}

// targets are the TargetGroup of a namespace with one target.
func targets(namespace string, target netip.AddrPort) *v1alpha1.TargetGroup {
	return &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nodes-0", Labels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
		Spec:       v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "node-1", UID: "uid-1", Addresses: []string{target.Addr().String()}}}},
	}
}

// startTarget is a server that closes whatever connects, after a word.
func startTarget(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

// answers says whether a client is served there.
func answers(ctx context.Context, at netip.AddrPort) error {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	b := make([]byte, 5)
	_, err = c.Read(b)
	return err
}

// served is where a LoadBalancer is, once its address answers.
func (h *hub) served(l *clusterv1.LoadBalancer) netip.AddrPort {
	h.t.Helper()
	var at netip.AddrPort
	h.eventually(l.Namespace+"/"+l.Name+" to be served", func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		if len(l.Status.Addresses) == 0 {
			return fmt.Errorf("no address; %+v", l.Status.Conditions)
		}
		a, err := netip.ParseAddr(l.Status.Addresses[0].Value)
		if err != nil {
			return err
		}
		at = netip.AddrPortFrom(a, uint16(l.Spec.Ports[0].Port))
		return answers(ctx, at)
	})
	return at
}
