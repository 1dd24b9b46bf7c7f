package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Tenant goes with all that it has, though its agent goes on writing; nothing of another's is touched; and made again at
// once, by whoever deleted it by mistake, it gets its addresses back.
func TestATenantGoesWholeAndComesBack(t *testing.T) {
	whole := newHub(t)
	h := &hub{t: t, control: whole.control, api: whole.api, name: "gone"}
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.0/28")
	other := &hub{t: t, control: whole.control, api: whole.api, name: "other"}
	other.tenant()
	other.create(other.newTargetGroup("10.0.1.1"))
	theirs := other.newLoadBalancer("web", 80)
	theirs.Spec.ClassName = h.name
	other.create(theirs)
	p := h.proxy("1")
	p.run()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	other.waitFor(theirs, "AddressGranted=True")
	address := addressOf(l)
	// Something that holds up the namespace's end, so that the next Tenant meets it.
	keep := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "keep", Finalizers: []string{"example.com/keep"}}}
	h.create(keep)
	stopAgent := h.stubbornAgent()
	tn := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	h.delete(tn)
	wait(h, tn, "held", func(t *v1alpha1.Tenant) error {
		return heldBy(t.Status.Conditions, "LoadBalancers of this Tenant are served on: web.")
	})
	h.change(tn, func(client.Object) { tn.Spec.Suspend = true })
	h.gone(tn)
	stopAgent()
	for _, o := range []client.Object{
		&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: address}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-tenant-" + h.name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "fairlead-tenant-" + h.name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: v1alpha1.AgentServiceAccount}},
	} {
		h.gone(o)
	}
	list := &clusterv1.LoadBalancerList{}
	if err := h.api.List(t.Context(), list, client.InNamespace(h.name)); err != nil || len(list.Items) > 0 {
		t.Errorf("%d LoadBalancers are left, %v", len(list.Items), err)
	}
	// Again, at once.
	again := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}
	h.create(again)
	wait(h, again, "waits for the namespace's end", func(t *v1alpha1.Tenant) error {
		return condition(t.Status.Conditions, "Ready=False/Deleting")
	})
	h.change(keep, func(o client.Object) { o.SetFinalizers(nil) })
	wait(h, again, "Ready", func(t *v1alpha1.Tenant) error { return condition(t.Status.Conditions, "Ready=True") })
	next := h.newLoadBalancer("web", 80)
	next.Spec.Addresses = []string{address}
	h.create(next)
	if h.waitFor(next, "AddressGranted=True"); addressOf(next) != address {
		t.Errorf("it had %s, and has %s", address, addressOf(next))
	}
	was := theirs.DeepCopy()
	if err := h.api.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.UID != was.UID || addressOf(theirs) != addressOf(was) || theirs.DeletionTimestamp != nil {
		t.Errorf("another Tenant's LoadBalancer was touched: %v, %+v", err, theirs)
	}
}

// stubbornAgent makes its LoadBalancer again whenever it is gone, with the rights that the Tenant's agent has.
func (h *hub) stubbornAgent() (stop func()) {
	h.t.Helper()
	file, err := h.control.ServiceAccountKubeconfig(h.t.Context(), h.name, v1alpha1.AgentServiceAccount)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg.QPS = -1
	scheme, err := app.Scheme()
	if err != nil {
		h.t.Fatal(err)
	}
	agent, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			err := agent.Create(ctx, h.newLoadBalancer("web", 80))
			if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || ctx.Err() != nil {
				continue
			}
			if !errors.Is(err, context.Canceled) {
				h.t.Error(fmt.Errorf("the agent's write: %w", err))
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}
