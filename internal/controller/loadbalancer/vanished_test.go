package loadbalancer

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What a proxy was seen to serve for a LoadBalancer that the hub lacks is kept for it, also where nobody knows whether
// the Address was written: the API server is asked. What it doesn't have is nobody's.
func TestWhatIsAdoptedForAMissingLoadBalancerIsNotReleased(t *testing.T) {
	const name = "192.0.2.1"
	before, missing := ipam.Ref{Namespace: "t", Name: "before"}, ipam.Ref{Namespace: "t", Name: "missing"}
	what := ipam.What{Address: netip.MustParseAddr(name)}
	claim := func(ref ipam.Ref, port int32) ipam.Claim {
		return ipam.Claim{Proxy: "a", ProxyPool: "edge", What: what, Holder: ipam.Holder{Ref: ref, Ports: []ipam.Port{{Protocol: "TCP", Number: port}}}}
	}
	lost := apierrors.NewTimeoutError("no answer", 1)
	for why, c := range map[string]struct {
		// written: the write whose answer is lost took effect. beside: another LoadBalancer has the Address already.
		written, beside bool
		holders         []string
	}{
		"a new Address is written":                 {written: true, holders: []string{"missing"}},
		"a new Address is not written":             {},
		"it is written beside another's ports":     {written: true, beside: true, holders: []string{"before", "missing"}},
		"it is not written beside another's ports": {beside: true, holders: []string{"before"}},
	} {
		t.Run(why, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			loses := false
			lose := func(write func() error) error {
				if !loses || c.written {
					if err := write(); err != nil || !loses {
						return err
					}
				}
				loses = false
				return lost
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, h client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					return lose(func() error { return h.Create(ctx, o, opts...) })
				},
				Update: func(ctx context.Context, h client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					return lose(func() error { return h.Update(ctx, o, opts...) })
				},
			}).Build()
			log := slog.New(slog.DiscardHandler)
			keeper := ledger.New(ledger.Options{
				Logger: log, Client: hub, Reader: hub, Settled: func(string, proof.Version) bool { return true },
				PoolsOf: func(string) []string { return []string{"public"} }, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {},
			})
			keeper.SetPools([]ipam.Pool{{
				Name: "public", Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded, Ranges: []ipam.Range{{First: what.Address, Last: what.Address}},
			}})
			claims := []ipam.Claim{claim(missing, 81)}
			if c.beside {
				claims = append(claims, claim(before, 80))
				if _, err := keeper.Adopt(t.Context(), what, claims[1:], nil); err != nil {
					t.Fatal(err)
				}
			}
			loses = true
			if _, err := keeper.Adopt(t.Context(), what, claims, nil); err == nil {
				t.Fatal("adopted without an answer")
			}

			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			looks := &kit.Queue{}
			if err := looks.Start(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
			r := New(Options{Logger: log, Client: hub, Keeper: keeper, Fleet: fleet.New(fleet.Options{Logger: log, Now: time.Now}), Addresses: looks, Now: time.Now})
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: missing.Namespace, Name: missing.Name}}); err != nil {
				t.Fatal(err)
			}
			a := &v1alpha1.Address{}
			err := hub.Get(t.Context(), client.ObjectKey{Name: name}, a)
			if client.IgnoreNotFound(err) != nil || (err == nil) != (len(c.holders) > 0) {
				t.Fatal(err)
			}
			var has []string
			for _, h := range a.Spec.Holders {
				has = append(has, h.Name)
			}
			if slices.Sort(has); !slices.Equal(has, c.holders) || err == nil && a.Spec.Phase != v1alpha1.AddressGranted {
				t.Errorf("the Address is %s, of %v", a.Spec.Phase, has)
			}
			stands := slices.Contains(c.holders, "missing")
			if held := len(keeper.HeldBy(missing)) > 0; held != stands {
				t.Errorf("held in the ledger: %v", held)
			}
			if queue.Len() > 0 != stands {
				t.Errorf("the Address is looked at: %v", queue.Len() > 0)
			}
		})
	}
}
