package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// soon bounds waits, that for the next renewal of a Lease included; it is never a claim.
const soon = 2 * time.Minute

// plane is a control plane with a client that may do everything.
type plane struct {
	*testkit.ControlPlane
	api client.WithWatch
}

// clusters are a hub and a tenant's cluster, which all tests share: two control planes take seconds to start.
type clusters struct{ hub, tenant plane }

var both clusters // set once by TestMain, before any test

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for name, p := range map[string]*plane{"hub": &both.hub, "tenant": &both.tenant} {
		if p.ControlPlane, err = testkit.Start(ctx, testkit.Options{Name: name, Audit: true}); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, p.Stop(context.Background())) }()
		scheme, err := app.Scheme()
		if err != nil {
			return 0, err
		}
		if p.api, err = client.NewWithWatch(p.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(crd.Install(ctx, both.hub.RESTConfig()), rbac.InstallHub(ctx, both.hub.RESTConfig()), rbac.InstallTenant(ctx, both.tenant.RESTConfig())); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// world is one test's: a namespace in each cluster, an agent between them under its own
// identities and rights, and somebody who plays the hub's manager.
type world struct {
	testing.TB
	clusters
	hubNamespace, namespace string
	manager                 *manager
	agentHub, agentTenant   *rest.Config
	filter                  service.Filter
	log                     *slog.Logger
	healthAt                string // address of the agent's, from its next start on
	stop                    func()
}

// output is a test's, for as long as the test runs: klog's and controller-runtime's loggers are the process's, and
// what an agent leaves behind may use them later, when a test's own output panics.
type output struct {
	mu   sync.Mutex
	into io.Writer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.into.Write(b)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.into = io.Discard
}

func newWorld(t testing.TB) *world {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if len(name) > 50 {
		name = name[:50]
	}
	w := &world{TB: t, clusters: both, hubNamespace: "hub-" + name, namespace: name, filter: service.Filter{ClassPrefix: app.DefaultClassPrefix, Unclassed: true}}
	account := metav1.ObjectMeta{Namespace: w.hubNamespace, Name: v1alpha1.AgentServiceAccount}
	for _, o := range []client.Object{
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.hubNamespace}},
		&v1.ServiceAccount{ObjectMeta: account},
		&rbacv1.RoleBinding{ObjectMeta: account,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fairlead-agent"}},
	} {
		w.must(w.hub.api.Create(t.Context(), o))
	}
	w.must(w.tenant.api.Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	w.tenantInHub()
	w.agentHub = w.identity(w.hub, account.Namespace, account.Name)
	w.agentTenant = w.identity(w.tenant, v1alpha1.SystemNamespace, v1alpha1.AgentServiceAccount)
	w.manager = playManager(t, w.hub.api, w.hubNamespace)
	out := &output{into: w.Output()}
	t.Cleanup(out.end)
	w.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	w.start()
	t.Cleanup(w.clean)
	return w
}

// tenantInHub makes the Tenant, bound to the tenant's cluster, and what the hub's manager gives its agent beside the namespace.
func (w *world) tenantInHub() {
	w.Helper()
	system := &v1.Namespace{}
	w.must(w.tenant.api.Get(w.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	meta := metav1.ObjectMeta{Name: w.hubNamespace}
	read := []string{"get", "list", "watch"}
	w.forTheTest(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"tenants"}, ResourceNames: []string{w.hubNamespace}, Verbs: read},
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"loadbalancerclasses"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem}, Verbs: []string{"get"}},
	}})
	w.forTheTest(&rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.hubNamespace, Name: v1alpha1.AgentServiceAccount}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.hubNamespace}})
	w.forTheTest(&v1alpha1.Tenant{ObjectMeta: meta})
	w.tenantSays(func(t *v1alpha1.Tenant) { t.Status.ClusterUID = string(system.UID) })
}

// tenantSays changes the Tenant, and its status, as the hub's manager or its operator do.
func (w *world) tenantSays(change func(*v1alpha1.Tenant)) {
	w.Helper()
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: w.hubNamespace}}
	w.must(w.hub.api.Get(w.Context(), client.ObjectKeyFromObject(t), t))
	old := t.DeepCopy()
	change(t)
	status := t.DeepCopy()
	w.must(w.hub.api.Patch(w.Context(), t, client.MergeFrom(old)))
	w.must(w.hub.api.Status().Patch(w.Context(), status, client.MergeFrom(old)))
}

func (w *world) forTheTest(o client.Object) {
	w.Helper()
	w.must(w.hub.api.Create(w.Context(), o))
	w.Cleanup(func() {
		if err := w.hub.api.Delete(context.Background(), o); err != nil {
			w.Error(err)
		}
	})
}

func (w *world) identity(p plane, namespace, name string) *rest.Config {
	w.Helper()
	path, err := p.ServiceAccountKubeconfig(w.Context(), namespace, name)
	w.must(err)
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	w.must(err)
	cfg.QPS = -1
	return cfg
}

// start starts the agent; stopAgent stops it as SIGTERM would.
func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- app.RunAgentWith(ctx, w.agentTenant, w.agentHub, app.AgentOptions{
			HubNamespace: w.hubNamespace, Tenant: w.hubNamespace, Filter: w.filter, LeaderElection: app.DefaultLeaderElection(),
			Logger: w.log, HealthAddress: w.healthAt,
		})
	}()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Errorf("the agent ended with %v", err)
		}
		w.stop = func() {}
	}
}

// clean lets the agent release what the test left, so that the next test's agent finds nothing.
func (w *world) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := w.tenant.api.DeleteAllOf(ctx, &v1.Service{}, client.InNamespace(w.namespace)); err != nil {
		w.Error(err)
	}
	if err := testkit.Poll(ctx, 20*time.Millisecond, "all Services to go", func(ctx context.Context) error {
		list := &v1.ServiceList{}
		if err := w.tenant.api.List(ctx, list, client.InNamespace(w.namespace)); err != nil || len(list.Items) == 0 {
			return err
		}
		return fmt.Errorf("%s is left with finalizers %q", list.Items[0].Name, list.Items[0].Finalizers)
	}); err != nil {
		w.Error(err)
	}
	w.stop()
	w.manager.stop()
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) eventually(what string, f func(context.Context) error) {
	w.Helper()
	kubetest.Eventually(w, soon, what, f)
}
