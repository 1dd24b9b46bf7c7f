package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/config/crd"
	"fairlead.dev/fairlead/config/rbac"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/testkit/kubetest"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// soon is how long anything may take on a machine that is busy, a fresh leader's half minute included.
const soon = 90 * time.Second

// hub is an API server with our kinds and roles, and as many managers as a scenario starts.
type hub struct {
	t       *testing.T
	control *testkit.ControlPlane
	// api is the administrator's client, uncached.
	api client.Client
	// log of the managers.
	log logText
	// name of the scenario: of its class, its address pool, its Tenant and the pool of its proxies.
	name string
}

// logText is what the managers said.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) has(s string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.Contains(l.text.String(), s) {
		return fmt.Errorf("the log has no %q", s)
	}
	return nil
}

// TestScenarios tells each story on one API server, with a manager of its own that has no
// more rights than the installed ones.
func TestScenarios(t *testing.T) {
	whole := newHub(t)
	ran := 0
	scenarios := map[string]func(*hub){
		"granted":    granted,
		"joined":     joined,
		"refused":    refused,
		"silent":     silent,
		"letgo":      letGo,
		"waiters":    waiters,
		"inuse":      inUse,
		"narrowed":   narrowed,
		"families":   families,
		"anyone":     anyone,
		"quota":      quota,
		"moved":      moved,
		"held":       held,
		"classless":  classless,
		"missing":    missing,
		"restarted":  restarted,
		"asked":      asked,
		"elected":    elected,
		"suspended":  suspended,
		"retold":     retold,
		"tenant":     tenantLife,
		"taken":      namespaceTaken,
		"targets":    targets,
		"overlap":    overlap,
		"quarantine": quarantine,
		"kept":       kept,
		"epochs":     epochs,
		"machines":   machines,
		"frozen":     frozen,
		"takenalong": takenAlong,
		"adopted":    adopted,
		"disputed":   disputed,
		"restoring":  restoring,
		"burst":      burst,
		"changing":   changing,
		"away":       away,
		"byservice":  byService,
		"nametaken":  nameTaken,
		"technology": technology,
		"svcquota":   serviceQuota,
		"byport":     byPort,
		"onhosts":    onHosts,
		"beyond":     beyond,
		"everyway":   everyWay,
		"sharing":    sharing,
	}
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			ran++
			h := &hub{t: t, control: whole.control, api: whole.api, name: name}
			defer h.explain()
			scenario(h)
		})
	}
	if ran == len(scenarios) && !t.Failed() {
		whole.rightsAreUsed("fairlead-manager")
	}
}

// rightsAreUsed: in all scenarios together, the manager was denied nothing, and used each right to write that a ClusterRole of its gives.
func (h *hub) rightsAreUsed(clusterRole string) {
	h.t.Helper()
	h.rightsAreUsedBy("manager", clusterRole)
}

// rightsAreUsedBy is that of a ServiceAccount fairlead-<who>.
func (h *hub) rightsAreUsedBy(who, clusterRole string) {
	h.t.Helper()
	all, _, err := h.control.Writes(0)
	if err != nil {
		h.t.Fatal(err)
	}
	used := map[string]bool{}
	for _, w := range all {
		if !strings.HasSuffix(w.User, ":fairlead-"+who) {
			continue
		}
		if w.StatusCode == http.StatusForbidden {
			h.t.Errorf("the %s may not %s %s %s", who, w.Verb, w.Resource, w.Name)
		}
		used[w.Verb+" "+w.Resource] = true
	}
	role := &rbacv1.ClusterRole{}
	if err := h.api.Get(h.t.Context(), client.ObjectKey{Name: clusterRole}, role); err != nil {
		h.t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				switch verb {
				case "get", "list", "watch", "bind":
					continue
				}
				what := verb + " " + resource
				if !used[what] && (who == "manager" || what != "patch events") { // an event may not come again
					h.t.Errorf("the %s may %s, and never does", who, what)
				}
			}
		}
	}
}

func newHub(t *testing.T) *hub {
	t.Helper()
	c := kubetest.Start(t, testkit.Options{Name: "hub", Audit: true})
	if err := crd.Install(t.Context(), c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	if err := rbac.InstallHub(t.Context(), c.RESTConfig()); err != nil {
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
	return &hub{t: t, control: c, api: api}
}

// manager runs a manager under its own identity until the test ends or stop is called.
func (h *hub) manager(election app.LeaderElection) (stop func()) {
	h.t.Helper()
	file, err := h.control.ServiceAccountKubeconfig(h.t.Context(), v1alpha1.SystemNamespace, "fairlead-manager")
	if err != nil {
		h.t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = -1, -1
	// What a failure shows says more than a person wants to read along.
	log := slog.Handler(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if testing.Verbose() {
		log = slog.NewMultiHandler(log, slog.NewTextHandler(os.Stderr, nil))
	}
	return h.running("manager", func(ctx ctx) error {
		return app.RunManagerWith(ctx, cfg, app.ManagerOptions{
			Logger: slog.New(log), LeaderElection: election,
		})
	})
}

// running runs a program until the test ends or stop is called.
func (h *hub) running(what string, program func(ctx) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- program(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("%s: %v", what, err)
		}
	}
	h.t.Cleanup(stop)
	return stop
}

func (h *hub) create(objects ...client.Object) {
	h.t.Helper()
	for _, o := range objects {
		if err := h.api.Create(h.t.Context(), o); err != nil {
			h.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

func (h *hub) delete(o client.Object) {
	h.t.Helper()
	if err := h.api.Delete(h.t.Context(), o); err != nil {
		h.t.Fatalf("deleting %T %s: %v", o, o.GetName(), err)
	}
}

// eventually polls until f returns nil.
func (h *hub) eventually(what string, f func(context.Context) error) {
	h.t.Helper()
	kubetest.Eventually(h.t, soon, what, f)
}

// wait reads an object until it is as it should be.
func wait[T client.Object](h *hub, o T, what string, right func(T) error) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%T %s: %s", o, o.GetName(), what), func(ctx context.Context) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		return right(o)
	})
}

// gone waits until an object is no more.
func (h *hub) gone(o client.Object) {
	h.t.Helper()
	was := o.GetUID() // the manager may have made another one of the same name meanwhile
	h.eventually(fmt.Sprintf("%T %s to be gone", o, o.GetName()), func(ctx context.Context) error {
		err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && o.GetUID() == was {
			return errors.New("it is there")
		}
		return nil
	})
}

// condition says why a condition isn't as wanted; a want is Type=Status or Type=Status/Reason.
func condition(conditions []metav1.Condition, want string) error {
	kind, rest, _ := strings.Cut(want, "=")
	status, reason, _ := strings.Cut(rest, "/")
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return fmt.Errorf("no condition %s yet", kind)
	}
	if string(c.Status) != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("%s is %s/%s (%s), not %s", kind, c.Status, c.Reason, c.Message, rest)
	}
	return nil
}

// waitFor waits for conditions of a LoadBalancer in its present generation.
func (h *hub) waitFor(l *clusterv1.LoadBalancer, wants ...string) *clusterv1.LoadBalancer {
	h.t.Helper()
	wait(h, l, strings.Join(wants, ", "), func(l *clusterv1.LoadBalancer) error {
		for _, want := range wants {
			if err := condition(l.Status.Conditions, want); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(l.Status.Conditions, strings.Split(want, "=")[0]); c.ObservedGeneration != l.Generation {
				return fmt.Errorf("%s speaks of generation %d, not %d", c.Type, c.ObservedGeneration, l.Generation)
			}
		}
		return nil
	})
	return l
}

func addressOf(l *clusterv1.LoadBalancer) string {
	if len(l.Status.Addresses) == 0 {
		return ""
	}
	return l.Status.Addresses[0].Value
}

// The objects of most scenarios: one class, one pool, one Tenant, all of the scenario's name.

func (h *hub) newClass() *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: h.name},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: h.name}, AddressPools: []string{h.name}},
	}
}

func (h *hub) newPool(ranges ...string) *v1alpha1.AddressPool {
	return &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.AddressPoolSpec{Ranges: ranges, Requestable: true}}
}

// stage creates all three, with one TargetGroup.
func (h *hub) stage(ranges ...string) {
	h.t.Helper()
	h.create(h.newPool(ranges...), h.newClass())
	h.tenant()
	h.create(h.newTargetGroup("10.0.0.1"))
}

// tenant creates the Tenant and waits for its namespace.
func (h *hub) tenant(change ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	h.t.Helper()
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	for _, f := range change {
		f(tn)
	}
	h.create(tn)
	wait(h, tn, "Ready", func(tn *v1alpha1.Tenant) error { return condition(tn.Status.Conditions, "Ready=True") })
	return tn
}

// newLoadBalancer is one as an agent makes it.
func (h *hub) newLoadBalancer(name string, ports ...int32) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.name, Name: name, Finalizers: []string{clusterv1.Finalizer},
			Annotations: map[string]string{v1alpha1.AnnotationOrigin: "Service/default/" + name},
		},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: h.name,
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
		},
	}
	for _, p := range ports {
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: p, Protocol: clusterv1.ProtocolTCP, TargetPort: 30000 + p%1000})
	}
	return l
}

// loadBalancer creates one.
func (h *hub) loadBalancer(name string, ports ...int32) *clusterv1.LoadBalancer {
	h.t.Helper()
	l := h.newLoadBalancer(name, ports...)
	h.create(l)
	return l
}

func (h *hub) newTargetGroup(addresses ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "nodes-0", Labels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}}}
	for i, a := range addresses {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i), Addresses: []string{a}})
	}
	return g
}

// address is the Address that a LoadBalancer shows.
func (h *hub) address(l *clusterv1.LoadBalancer) *v1alpha1.Address {
	h.t.Helper()
	if addressOf(l) == "" {
		h.t.Fatalf("LoadBalancer %s shows no address", l.Name)
	}
	return &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: addressOf(l)}}
}

// expire has a person say that an Address's missing holder won't come back. Other scenarios' proxies raise the hub's epoch, and
// there is no agent here that would note it: the person says that of the Tenant, too.
func (h *hub) expire(a *v1alpha1.Address) {
	h.t.Helper()
	h.eventually("Address "+a.Name+" to be given up", func(ctx context.Context) error {
		for _, o := range []client.Object{&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, a} {
			if err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			if o == client.Object(a) && isReleasing(a) == nil {
				return nil
			}
			was := o.DeepCopyObject().(client.Object)
			annotations := maps.Clone(o.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[v1alpha1.AnnotationHeldUntil] = time.Now().UTC().Format(time.RFC3339)
			o.SetAnnotations(annotations)
			if err := h.api.Patch(ctx, o, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})); err != nil {
				return err
			}
		}
		return isReleasing(a)
	})
}

func isReleasing(a *v1alpha1.Address) error {
	if a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ReleasingSince == nil {
		return fmt.Errorf("phase %s since %v", a.Spec.Phase, a.Spec.ReleasingSince)
	}
	return nil
}
