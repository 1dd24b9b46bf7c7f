package controller_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// soon is how long anything may take on a machine that is busy.
const soon = 30 * time.Second

// hub is an API server with our kinds and roles, and as many managers as a test starts.
type hub struct {
	t       *testing.T
	control *testkit.ControlPlane
	// api is the administrator's client, uncached.
	api client.Client
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
	log := io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- app.RunManagerWith(ctx, cfg, app.ManagerOptions{
			Logger: slog.New(slog.NewTextHandler(log, nil)), LeaderElection: election,
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("manager: %v", err)
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
	h.eventually(fmt.Sprintf("%T %s to be gone", o, o.GetName()), func(ctx context.Context) error {
		err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
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

// The objects of most tests: one class, one pool, one Tenant.

func newClass(name string, pools ...string) *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationDefaultClass: "true"}},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}, AddressPools: pools},
	}
}

func newPool(name string, ranges ...string) *v1alpha1.AddressPool {
	return &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AddressPoolSpec{Ranges: ranges, Requestable: true}}
}

// tenant creates a Tenant and waits for its namespace.
func (h *hub) tenant(name string, change ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	h.t.Helper()
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	for _, f := range change {
		f(tn)
	}
	h.create(tn)
	wait(h, tn, "Ready", func(tn *v1alpha1.Tenant) error { return condition(tn.Status.Conditions, "Ready=True") })
	wait(h, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AgentServiceAccount}}, "there", func(*corev1.ServiceAccount) error { return nil })
	return tn
}

// newLoadBalancer is one as an agent makes it.
func newLoadBalancer(namespace, name string, ports ...int32) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Finalizers: []string{clusterv1.Finalizer},
			Annotations: map[string]string{v1alpha1.AnnotationOrigin: "Service/default/" + name},
		},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: "edge",
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
		},
	}
	for _, p := range ports {
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: p, Protocol: clusterv1.ProtocolTCP, TargetPort: 30000 + p%1000})
	}
	return l
}

func newTargetGroup(namespace string, addresses ...string) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nodes-0", Labels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}}}
	for i, a := range addresses {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i), Addresses: []string{a}})
	}
	return g
}
