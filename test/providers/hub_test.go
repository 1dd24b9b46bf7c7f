package providers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/api/infrastructure"
	fksconfig "fairlead.dev/fairlead/examples/fks-provider/config"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	fooconfig "fairlead.dev/fairlead/examples/foo-provider/config"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long anything may take on a machine that is busy.
const patience = 2 * time.Minute

// hub is an API server with Fairlead's kinds, Cluster API's and the examples', and with a manager.
type hub struct {
	control *testkit.ControlPlane
	// api is the administrator's client, uncached.
	api client.Client
	// foo and fks are kubeconfigs of the examples' ServiceAccounts.
	foo, fks string
	manager  *testkit.Process
}

func TestProviders(t *testing.T) {
	h := newHub(t)
	t.Run("rights", func(t *testing.T) { rights(t, h) })
	cloud, controller := h.fooProgram(t)
	t.Run("a rollout loses no connection, though members apply late and the controller is killed", func(t *testing.T) { rollout(t, h, cloud, controller) })
	t.Run("a drain goes on where it was, though the controller is killed and the cloud fails", func(t *testing.T) { drain(t, h, cloud, controller) })
	t.Run("what keeps a LoadBalancer from a provider kind is said", func(t *testing.T) { unserved(t, h) })
	t.Run("a class makes an object, and its LoadBalancer follows, whoever is killed", func(t *testing.T) { byClass(t, h, cloud, controller) })
	t.Run("an object that a person made is the LoadBalancer's while that refers to it", func(t *testing.T) { byReference(t, h) })
	t.Run("a Machine behind an object keeps its hook until its provider calls it removed", func(t *testing.T) { machinesBehind(t, h, cloud, controller) })
	seeds(t, h, cloud)
	service := h.fksProgram(t)
	for _, s := range []struct {
		name string
		tell func(*testing.T, *hub, *testkit.Process)
	}{
		{"Scenario 1: FKS takes care of the entire Kubernetes Cluster infrastructure", entire},
		{"Scenario 2: FKS takes care of only a subset of the Kubernetes Cluster infrastructure", subset},
		{"Scenario 3: FKS is not taking care of the control plane endpoint", noEndpoint},
	} {
		t.Run(s.name, func(t *testing.T) { s.tell(t, h, service) })
	}
	if !t.Failed() {
		onlyTheirOwn(t, h)
	}
}

func newHub(t *testing.T) *hub {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	c := kubetest.Start(t, testkit.Options{Name: "hub", Audit: true})
	cfg := c.RESTConfig()
	cfg.QPS, cfg.Burst = -1, -1
	if err := errors.Join(crd.Install(t.Context(), cfg), rbac.InstallHub(t.Context(), cfg), rbac.InstallClusterAPI(t.Context(), cfg)); err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(api.AddToScheme(scheme), infrastructure.AddToScheme(scheme), controlplane.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	h := &hub{control: c}
	if h.api, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, kinds := range []string{"clusters", "machines"} {
		h.create(t, clusterAPICRD(t, kinds))
	}
	if err := errors.Join(testkit.Create(t.Context(), cfg, fooconfig.Manifests), testkit.Create(t.Context(), cfg, fksconfig.Manifests)); err != nil {
		t.Fatal(err)
	}
	for _, served := range []string{"ClusterList", "MachineList"} {
		kubetest.Eventually(t, patience, served+" to be served", func(ctx context.Context) error {
			l := &unstructured.UnstructuredList{}
			l.SetAPIVersion("cluster.x-k8s.io/v1beta2")
			l.SetKind(served)
			return h.api.List(ctx, l)
		})
	}
	h.foo, h.fks = h.kubeconfig(t, "foo-provider-system", "foo-provider"), h.kubeconfig(t, "fks-provider-system", "fks-provider")
	h.startManager(t)
	return h
}

// clusterAPICRD is the CRD of one of Cluster API's own kinds, by its plural.
func clusterAPICRD(t *testing.T, kinds string) *unstructured.Unstructured {
	t.Helper()
	u, err := testkit.ClusterAPICRD(t.Context(), kinds)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (h *hub) kubeconfig(t *testing.T, namespace, name string) string {
	t.Helper()
	file, err := h.control.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// startManager runs the manager under its own identity until the test ends.
func (h *hub) startManager(t *testing.T) {
	t.Helper()
	h.manager = kubetest.StartProcess(t, testkit.Command{Name: "manager", Path: build(t, "cmd/fairlead"), Args: []string{
		"manager", "--kubeconfig", h.kubeconfig(t, v1alpha1.SystemNamespace, "fairlead-manager"), "--leader-elect=false",
	}})
}

// build builds a program, and returns its file.
func build(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), path.Base(name))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "fairlead.dev/fairlead/"+name).CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return file
}

// fooProgram starts foo-provider as two processes: the cloud, whose control address it returns, and the controller.
func (h *hub) fooProgram(t *testing.T) (control string, controller *testkit.Process) {
	t.Helper()
	file := build(t, "examples/foo-provider")
	serve, control := h.at(198, 9090), h.at(198, 9091)
	kubetest.StartProcess(t, testkit.Command{Name: "the Foo cloud", Path: file, Args: []string{
		"--serve", serve, "--control", control, "--addresses", netip.PrefixFrom(h.host(200), 29).String(), "--apply-delay", "1s",
	}})
	return "http://" + control, kubetest.StartProcess(t, testkit.Command{Name: "foo-provider", Path: file, Args: []string{
		"--kubeconfig", h.foo, "--webhook", "http://" + serve,
	}})
}

// fksProgram starts fks-provider.
func (h *hub) fksProgram(t *testing.T) *testkit.Process {
	t.Helper()
	return kubetest.StartProcess(t, testkit.Command{Name: "fks-provider", Path: build(t, "examples/fks-provider"), Args: []string{
		"--kubeconfig", h.fks, "--addresses", netip.PrefixFrom(h.host(160), 27).String(), "--file", filepath.Join(t.TempDir(), "fks.json"),
	}})
}

// host is the n-th address of the hub's own loopback subnet.
func (h *hub) host(n byte) netip.Addr {
	a := h.control.Subnet().Addr().As4()
	a[3] = n
	return netip.AddrFrom4(a)
}

func (h *hub) at(n byte, port int) string {
	return net.JoinHostPort(h.host(n).String(), strconv.Itoa(port))
}

func (h *hub) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := h.api.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func (h *hub) namespace(t *testing.T, name string) {
	t.Helper()
	h.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// change writes what f changes of an object, whoever else writes it meanwhile.
func change[T client.Object](t *testing.T, h *hub, o T, f func(T)) {
	t.Helper()
	kubetest.Eventually(t, patience, "a write of "+o.GetName(), func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		f(o)
		return h.api.Update(ctx, o)
	})
}

// wait reads an object until it is right.
func wait[T client.Object](t *testing.T, h *hub, o T, what string, right func(T) error) {
	t.Helper()
	kubetest.Eventually(t, patience, o.GetName()+": "+what, func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return right(o)
	})
}

// is says why a condition isn't that status for that reason.
func is(all []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) error {
	c := meta.FindStatusCondition(all, kind)
	if c == nil {
		return fmt.Errorf("there is no condition %s yet", kind)
	}
	if c.Status != status || c.Reason != reason {
		return fmt.Errorf("%s is %s, %s: %s", kind, c.Status, c.Reason, c.Message)
	}
	return nil
}

// gone waits until an object is no more.
func (h *hub) gone(t *testing.T, o client.Object) {
	t.Helper()
	kubetest.Eventually(t, patience, o.GetName()+" to be gone", func(ctx context.Context) error {
		err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
}
