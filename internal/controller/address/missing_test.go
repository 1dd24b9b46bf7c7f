package address

import (
	"log/slog"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// stage is a hub with one Tenant, whose LoadBalancer web holds an Address and is missing.
type stage struct {
	*testing.T
	*Reconciler
	hub     client.Client
	trouble *proof.Trouble
}

const held = "192.0.2.1"

func newStage(t *testing.T, tenant *v1alpha1.Tenant, address *v1alpha1.Address) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	tenant.Name = "t"
	address.Name = held
	address.Spec = v1alpha1.AddressSpec{
		Address: held, Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
		Holders: []v1alpha1.Holder{{Namespace: tenant.NamespaceName(), Name: "web", Ports: []string{"TCP/80"}}},
	}
	byNamespace := func(o client.Object) []string { return []string{o.(*v1alpha1.Tenant).NamespaceName()} }
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(tenant).WithIndex(tenant, kit.TenantByNamespace, byNamespace).WithObjects(tenant, address).Build()
	s := &stage{T: t, hub: hub, trouble: &proof.Trouble{}}
	log := slog.New(slog.DiscardHandler)
	keeper := ledger.New(ledger.Options{
		Logger: log, Client: hub, Reader: hub, Settled: func(string, proof.Version) bool { return true },
		Trouble: func() *proof.Trouble { return s.trouble }, PoolsOf: poolsOf,
		Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {},
	})
	s.Reconciler = New(Options{
		Logger: log, Client: hub, Reader: hub, Keeper: keeper, Fleet: fleet.New(fleet.Options{Logger: log, Now: time.Now}), Wake: func(ipam.Ref) {}, Now: time.Now,
	})
	keeper.Observe(s.address())
	return s
}

func (s *stage) address() *v1alpha1.Address {
	s.Helper()
	a := &v1alpha1.Address{}
	if err := s.hub.Get(s.Context(), client.ObjectKey{Name: held}, a); err != nil {
		s.Fatal(err)
	}
	return a
}

// round reconciles once, and returns what the Address says then.
func (s *stage) round() *v1alpha1.Address {
	s.Helper()
	if _, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: held}}); err != nil {
		s.Fatal(err)
	}
	return s.address()
}

// poolsOf says that one pool of proxies serves the pool of the Address.
func poolsOf(proxyPool string) []string {
	if proxyPool == "edge" {
		return []string{"public"}
	}
	return nil
}

// queue is what is looked at again.
func (s *stage) queue() workqueue.TypedRateLimitingInterface[reconcile.Request] {
	s.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	if err := s.Queue.Start(s.Context(), q); err != nil {
		s.Fatal(err)
	}
	return q
}

// A frozen proxy's claim would be granted again at once, and given up again.
func TestNothingIsGivenUpWithItsTenantWhileAProxyIsFrozen(t *testing.T) {
	gone := metav1.Now()
	s := newStage(t, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone, Finalizers: []string{"f"}}}, &v1alpha1.Address{})
	s.trouble = &proof.Trouble{Frozen: []*proof.Proxy{{Name: "p", Pool: "edge", Live: true, HubChanged: v1alpha1.ReasonHubRestored}}}
	for range 2 {
		if a := s.round(); a.Spec.Phase != v1alpha1.AddressGranted || !ledger.IsHeld(a) {
			t.Fatalf("%+v", a)
		}
	}
	queue := s.queue()
	if s.fleetChanged(fleet.Change{}); queue.Len() != 0 {
		t.Error("it is looked at again with each change of the fleet, and the trouble lasts")
	}
	other := proof.Proxy{Name: "q", Pool: "core", HubChanged: v1alpha1.ReasonHubRestored}
	s.trouble = &proof.Trouble{Frozen: []*proof.Proxy{&other}}
	if s.fleetChanged(fleet.Change{}); queue.Len() != 1 {
		t.Error("nobody looks at it when the trouble of its pool is over")
	}
	if a := s.round(); a.Spec.Phase != v1alpha1.AddressReleasing {
		t.Errorf("%+v", a)
	}
}

// The time of before a restore says nothing: the agent has yet to write the LoadBalancer again.
func TestATimeThatIsOverWaitsForTheAgent(t *testing.T) {
	for _, c := range []struct {
		hub, agent int64
		phase      v1alpha1.AddressPhase
	}{{0, 0, v1alpha1.AddressReleasing}, {4, 3, v1alpha1.AddressGranted}, {4, 4, v1alpha1.AddressReleasing}} {
		tenant := &v1alpha1.Tenant{Status: v1alpha1.TenantStatus{HubEpoch: c.hub, AgentEpoch: c.agent}}
		s := newStage(t, tenant, &v1alpha1.Address{})
		a := s.round()
		if !ledger.IsHeld(a) {
			t.Fatalf("%+v", a)
		}
		old := a.DeepCopy()
		a.Annotations[v1alpha1.AnnotationHeldUntil] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		if err := s.hub.Patch(t.Context(), a, client.MergeFrom(old)); err != nil {
			t.Fatal(err)
		}
		s.Keeper.Observe(s.address())
		if a := s.round(); a.Spec.Phase != c.phase {
			t.Errorf("epochs %+v: %s", c, a.Spec.Phase)
		}
	}
}
