package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// hub is a real API server with our kinds, a class and a namespace, and one echo server as target.
type hub struct {
	*testkit.ControlPlane
	client client.Client
	// serve is a prefix of loopback addresses that are served.
	serve netip.Prefix
	echo  netip.AddrPort
	// accounts are the kubeconfigs of the proxies' identities.
	accounts map[string]string
}

const namespace = "shop"

// soon is how long anything may take on a machine that is busy; it is never a claim.
const soon = time.Minute

func startHub(t *testing.T) *hub {
	t.Helper()
	cp := kubetest.Start(t, testkit.Options{Name: "hub"})
	if err := crd.Install(t.Context(), cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if err := rbac.InstallHub(t.Context(), cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cfg := cp.RESTConfig()
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{ControlPlane: cp, client: c, serve: cp.Subnet(), accounts: map[string]string{}}
	h.echo = startEcho(t, "one")
	h.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	h.create(t, &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: "edge"},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}, AddressPools: []string{"public"}},
	})
	h.create(t, &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nodes-0", Labels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
		Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{
			{Name: "node-1", UID: "uid-1", Addresses: []string{h.echo.Addr().String()}},
		}},
	})
	return h
}

func (h *hub) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := h.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// address is the nth of those that are served.
func (h *hub) address(n byte) netip.Addr {
	a := h.serve.Addr().As4()
	a[3] = n
	return netip.AddrFrom4(a)
}

// loadBalancer creates one with its grant, as agent and manager would.
func (h *hub) loadBalancer(t *testing.T, name string, at netip.AddrPort) {
	t.Helper()
	port := int32(at.Port())
	h.create(t, &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: "edge",
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
			Ports:     []clusterv1.Port{{Name: "http", Protocol: clusterv1.ProtocolTCP, Port: port, TargetPort: int32(h.echo.Port())}},
		},
	})
	h.create(t, &v1alpha1.Address{
		ObjectMeta: metav1.ObjectMeta{Name: at.Addr().String()},
		Spec: v1alpha1.AddressSpec{
			Address: at.Addr().String(), Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
			Holders: []v1alpha1.Holder{{Namespace: namespace, Name: name, Ports: []string{"TCP/" + strconv.Itoa(int(port))}}},
		},
	})
}

// account returns the kubeconfig of a proxy's identity.
func (h *hub) account(t *testing.T, name string) string {
	t.Helper()
	if path, ok := h.accounts[name]; ok {
		return path
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.ProxyNamespace, Name: name}}
	if err := h.client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	path, err := h.ServiceAccountKubeconfig(t.Context(), account.Namespace, account.Name)
	if err != nil {
		t.Fatal(err)
	}
	h.accounts[name] = path
	return path
}

// startProxy runs a proxy until the test ends or the returned function is called.
func (h *hub) startProxy(t *testing.T, name string, o app.ProxyOptions) (stop func()) {
	t.Helper()
	o.Kubeconfig, o.Name, o.Pool, o.Dataplane = h.account(t, name), name, "edge", "builtin"
	o.ShutdownTimeout = time.Second
	o.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.RunProxy(ctx, o) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("proxy: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

func startEcho(t *testing.T, name string) netip.AddrPort {
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
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					fmt.Fprintf(c, "%s %s", name, line)
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func say(c net.Conn) error {
	c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && line != "one hello\n" {
		err = fmt.Errorf("answer %q", line)
	}
	return err
}

// answers makes one request on a new connection.
func answers(at netip.AddrPort) error {
	c, err := net.DialTimeout("tcp", at.String(), 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	return say(c)
}

func refuses(at netip.AddrPort) error {
	c, err := net.DialTimeout("tcp", at.String(), 2*time.Second)
	if err == nil {
		c.Close()
		return errors.New("somebody listens")
	}
	return nil
}

func (h *hub) proxy(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	px := &v1alpha1.Proxy{}
	return px, h.client.Get(ctx, client.ObjectKey{Name: name}, px)
}

func (h *hub) report(ctx context.Context, name string) (*v1alpha1.ProxyReport, error) {
	r := &v1alpha1.ProxyReport{}
	return r, h.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)
}

// reaches says that the proxy is through an object's version.
func reaches(through, version string) error {
	a, _ := strconv.ParseUint(through, 10, 64)
	b, err := strconv.ParseUint(version, 10, 64)
	if err == nil && a < b {
		err = fmt.Errorf("through %q, wanted %s", through, version)
	}
	return err
}
