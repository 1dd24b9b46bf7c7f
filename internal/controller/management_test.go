package controller_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managed is a management cluster, whose LoadBalancers a hub elsewhere serves.
type managed struct {
	*fleetOf
	// elsewhere is the hub, named as the Tenant that the management cluster is.
	elsewhere *hub
}

// TestManagementCluster has Machines come and go in a cluster that isn't the hub, whose proxies are heard through the hub alone.
func TestManagementCluster(t *testing.T) {
	elsewhere := newHub(t)
	elsewhere.name = "mgmt"
	elsewhere.manager(app.LeaderElection{})
	here := newManagementCluster(t)
	elsewhere.create(elsewhere.newPool("192.0.2.0/29"), elsewhere.newClass())
	elsewhere.tenant()
	here.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: here.name}})
	c := here.newCluster("prod", nil)
	c.SetAnnotations(map[string]string{member.NameAnnotation: "api"})
	m := &managed{elsewhere: elsewhere, fleetOf: &fleetOf{hub: here, proxy: elsewhere.proxy("edge"), lb: &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: here.name, Name: "api"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: elsewhere.name, ClusterName: "prod", Ports: []clusterv1.Port{{Port: 6443, TargetPort: 6443, Protocol: clusterv1.ProtocolTCP}},
		},
	}}}
	m.proxy.beat()
	here.create(c, m.lb)
	stop := m.rollout(m.untended())
	m.published()
	m.unwritten()
	m.noted()
	m.hostedHere()
	m.managerBeside()
	m.hubAway()
	m.remade()
	m.moved()
	stop = m.missing(stop)
	m.explained()
	m.leaves(stop)
	m.letGo()
	if !t.Failed() {
		here.rightsAreUsedBy("agent", "fairlead-management")
	}
}

// newManagementCluster is an API server with Cluster API's kinds, the agent's rights, and no manager.
func newManagementCluster(t *testing.T) *hub {
	t.Helper()
	c := kubetest.Start(t, testkit.Options{Name: "management", Audit: true})
	if err := errors.Join(crd.Install(t.Context(), c.RESTConfig()), rbac.InstallTenant(t.Context(), c.RESTConfig()), rbac.InstallManagement(t.Context(), c.RESTConfig())); err != nil {
		t.Fatal(err)
	}
	scheme, err := app.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.RESTConfig()
	cfg.QPS, cfg.Burst = -1, -1
	api, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, control: c, api: api, name: "clusters"}
	h.create(clusterCRD(t), clusterAPICRD(t, "machines"))
	for _, kind := range []string{"Cluster", "Machine"} {
		h.eventually(kind+"s to be served", func(ctx ctx) error {
			l := &unstructured.UnstructuredList{}
			l.SetAPIVersion("cluster.x-k8s.io/v1beta2")
			l.SetKind(kind + "List")
			return h.api.List(ctx, l)
		})
	}
	return h
}

// as is how a ServiceAccount reaches an API server.
func (h *hub) as(namespace, name string) *rest.Config {
	h.t.Helper()
	file, err := h.control.ServiceAccountKubeconfig(h.t.Context(), namespace, name)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		h.t.Fatal(err)
	}
	return cfg
}

// agent runs one of several until the test ends or stop is called: one leads.
func (m *managed) agent() (stop func()) {
	m.t.Helper()
	var to io.Writer = &m.log
	if testing.Verbose() {
		to = io.MultiWriter(to, os.Stderr)
	}
	o := app.AgentOptions{
		HubNamespace: m.elsewhere.name, Tenant: m.elsewhere.name, Management: true, LeaderElection: app.DefaultLeaderElection(),
		Logger: slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelInfo})).With("part", "agent"),
	}
	here, hub := m.as(v1alpha1.SystemNamespace, v1alpha1.AgentServiceAccount), m.elsewhere.as(m.elsewhere.name, v1alpha1.AgentServiceAccount)
	return m.running("agent", func(ctx ctx) error { return app.RunAgentWith(ctx, here, hub, o) })
}

// inHub are what the hub has of the LoadBalancer: itself, and its TargetGroups.
func (m *managed) inHub(ctx ctx) ([]clusterv1.LoadBalancer, []v1alpha1.TargetGroup, error) {
	balancers, groups := &clusterv1.LoadBalancerList{}, &v1alpha1.TargetGroupList{}
	err := errors.Join(
		m.elsewhere.api.List(ctx, balancers, client.InNamespace(m.elsewhere.name)),
		m.elsewhere.api.List(ctx, groups, client.InNamespace(m.elsewhere.name), client.MatchingLabels{v1alpha1.LabelGeneratedFrom: "Machine"}))
	return balancers.Items, groups.Items, err
}

// rollout: a Machine takes another one's place, which is held until the hub says that the proxy has stopped, whichever agent leads.
func (m *managed) rollout(stop func()) (next func()) {
	old := m.machine("a1", "prod")
	m.machine("a2", "prod")
	m.states("a1=active", "a2=active")
	m.says("Programmed=True", "Ready=True", "Mirrored=True", clusterv1.ConditionTargetsFollowed+"=True/AsExpected")
	if addressOf(m.lb) == "" || m.lb.Status.Members != "2/2" {
		m.t.Errorf("%+v", m.lb.Status)
	}
	if has, err := m.hooked(m.t.Context(), old); err != nil || !has {
		m.t.Errorf("Machine %s isn't held: %v, %v", old.GetName(), old.GetAnnotations(), err)
	}
	m.proxy.busy = map[string]int64{"a1": 2}
	m.delete(old)
	m.held(old)
	next = m.agent()
	stop()
	m.machine("a3", "prod")
	m.states("a1=removing", "a2=active", "a3=active")
	m.held(old)
	m.proxy.busy = nil
	m.unhooks(old)
	m.collect(old)
	m.states("a2=active", "a3=active")
	m.until("the hub to have none of it", func(ctx ctx) error {
		_, groups, err := m.inHub(ctx)
		if err != nil || len(groups) != 1 || slices.ContainsFunc(groups[0].Spec.Targets, func(t v1alpha1.Target) bool { return t.Name == "a1" }) {
			return errors.Join(err, fmt.Errorf("it has %+v", groups))
		}
		return nil
	})
	return next
}

// noted: which hub serves a LoadBalancer is noted on it anew once it serves it.
func (m *managed) noted() {
	system := &corev1.Namespace{}
	if err := m.elsewhere.api.Get(m.t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		m.t.Fatal(err)
	}
	note := func(uid string) {
		m.change(m.lb, func(o client.Object) { o.SetAnnotations(map[string]string{clusterv1.HubAnnotation: uid}) })
	}
	note("another")
	m.until("this hub to be noted", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(m.lb), m.lb); err != nil || m.lb.Annotations[clusterv1.HubAnnotation] != string(system.UID) {
			return errors.Join(err, fmt.Errorf("%v", m.lb.Annotations))
		}
		return nil
	})
}

// hubAway: while the hub is away nobody is taken for gone; a hook goes when maxWait has passed, or when the hub is back and says so.
func (m *managed) hubAway() {
	now := m.t.Context()
	web := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "web"}, Spec: clusterv1.LoadBalancerSpec{
		ClassName: m.elsewhere.name, ClusterName: "prod", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}},
		Ports:        []clusterv1.Port{{Port: 443, TargetPort: 443, Protocol: clusterv1.ProtocolTCP}},
		MachineHooks: &clusterv1.MachineHooks{MaxWait: &metav1.Duration{}, OnMaxWait: clusterv1.OnMaxWaitRelease},
	}}
	worker := m.newMachine("w1", "prod")
	worker.SetLabels(map[string]string{member.ClusterNameLabel: "prod", "pool": "web"})
	m.create(web, worker)
	m.addressed(worker)
	m.until("Machine w1 to be active", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil || !slices.Equal(web.Status.ActiveTargets, []string{"w1"}) {
			return errors.Join(err, fmt.Errorf("%+v", web.Status))
		}
		return nil
	})
	waiting, front := m.served()
	if err := m.elsewhere.control.StopAPIServer(now); err != nil {
		m.t.Fatal(err)
	}
	leaves := &unstructured.Unstructured{}
	leaves.SetGroupVersionKind(m.newMachine("a2", "prod").GroupVersionKind())
	leaves.SetNamespace(m.name)
	leaves.SetName("a2")
	m.delete(leaves)
	here := func(what string, check func(ctx) error) { m.eventually(what, check) }
	m.unsure(waiting, front)
	late := m.asks()
	here("Machine a2 to wait for the hub", func(ctx ctx) error { return m.has(ctx, "a2=removing", "a3=active") })
	if has, err := m.hooked(now, leaves); err != nil || !has {
		m.t.Errorf("Machine a2 isn't held: %v, %v", leaves.GetAnnotations(), err)
	}
	here("the LoadBalancer to say that the hub is away", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(m.lb), m.lb); err != nil {
			return err
		}
		return errors.Join(condition(m.lb.Status.Conditions, "Mirrored=False/HubUnreachable"), condition(m.lb.Status.Conditions, "Programmed=True"))
	})
	if served, rungs, text := m.explains(false); served || !strings.HasPrefix(rungs, "mirrored=broken accepted=ok address=ok programmed=ok") {
		m.t.Errorf("served %v, %s:\n%s", served, rungs, text)
	}
	m.delete(worker)
	held := func(ctx ctx) (bool, error) {
		err := m.api.Get(ctx, client.ObjectKeyFromObject(worker), worker)
		return member.Hooked(worker.GetAnnotations(), web.Name), err
	}
	here("Machine w1 to be let go", func(ctx ctx) error {
		if has, err := held(ctx); err != nil || has {
			return errors.Join(err, fmt.Errorf("%v", worker.GetAnnotations()))
		}
		return nil
	})
	m.collect(worker)
	if err := m.elsewhere.control.StartAPIServer(now); err != nil {
		m.t.Fatal(err)
	}
	m.unhooks(leaves)
	m.collect(leaves)
	m.answered(late)
	m.vouched(waiting, front)
	m.states("a3=active")
	m.says("Programmed=True", "Mirrored=True")
	m.delete(web)
	m.until("LoadBalancer web to be gone", func(ctx ctx) error {
		if err := m.api.Get(ctx, client.ObjectKeyFromObject(web), web); client.IgnoreNotFound(err) != nil || err == nil {
			return errors.Join(err, errors.New("it is there"))
		}
		return nil
	})
}

// missing: a LoadBalancer that is gone, and whom no agent saw being deleted, is served on in the hub; it gets the same when it is back.
func (m *managed) missing(stop func()) (next func()) {
	stop()
	address := addressOf(m.lb)
	again := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: m.lb.Namespace, Name: m.lb.Name}, Spec: m.lb.Spec}
	m.change(m.lb, func(o client.Object) { o.SetFinalizers(nil) })
	m.delete(m.lb)
	next = m.agent()
	m.until("the hub's LoadBalancer to be held", func(ctx ctx) error {
		balancers, _, err := m.inHub(ctx)
		if err != nil || len(balancers) != 1 || balancers[0].Annotations[v1alpha1.AnnotationHeldUntil] == "" || balancers[0].DeletionTimestamp != nil {
			return errors.Join(err, fmt.Errorf("it has %+v", balancers))
		}
		return nil
	})
	m.lb = again
	m.create(m.lb)
	m.states("a3=active")
	m.says("Programmed=True", "Mirrored=True")
	balancers, _, err := m.inHub(m.t.Context())
	if err != nil || len(balancers) != 1 || balancers[0].Annotations[v1alpha1.AnnotationOriginUID] != string(m.lb.UID) || addressOf(m.lb) != address {
		m.t.Errorf("it is at %s, and was at %s: %+v, %v", addressOf(m.lb), address, balancers, err)
	}
	return next
}

// remade: what the hub's operator deletes is made again.
func (m *managed) remade() {
	balancers, _, err := m.inHub(m.t.Context())
	if err != nil || len(balancers) != 1 {
		m.t.Fatalf("%+v, %v", balancers, err)
	}
	was := balancers[0]
	m.elsewhere.delete(&was)
	m.until("the hub to have another one", func(ctx ctx) error {
		balancers, _, err := m.inHub(ctx)
		if err != nil || len(balancers) != 1 || balancers[0].UID == was.UID {
			return errors.Join(err, fmt.Errorf("it has %+v", balancers))
		}
		return nil
	})
	m.says("Programmed=True", "Mirrored=True")
	m.states("a3=active")
}

// letGo: a LoadBalancer that is deleted leaves nothing behind, here or in the hub.
func (m *managed) letGo() {
	last := m.newMachine("a3", "prod")
	m.delete(m.lb)
	m.unhooks(last)
	if a := last.GetAnnotations(); a[member.StatusAnnotation] != "" || a[member.NameAnnotation] != "" {
		m.t.Errorf("it keeps %v", a)
	}
	m.until("the LoadBalancer to be gone, and what was made for it", func(ctx ctx) error {
		for _, o := range []client.Object{m.lb, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: "api-members-0"}}} {
			if err := m.api.Get(ctx, client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil || err == nil {
				return errors.Join(err, fmt.Errorf("%T is there", o))
			}
		}
		balancers, groups, err := m.inHub(ctx)
		if err != nil || len(balancers)+len(groups) > 0 {
			return errors.Join(err, fmt.Errorf("the hub has %+v, %+v", balancers, groups))
		}
		return nil
	})
}
