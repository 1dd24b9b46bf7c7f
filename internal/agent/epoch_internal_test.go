package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/yield"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fakes are a tenant's cluster with one Service, and a hub that lost everything, fails its first writes and loses the next.
func fakes(t *testing.T, fails int) (tenant, hub client.WithWatch) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := at("1")
	s.Namespace, s.Name = key.Namespace, key.Name
	s.Spec = v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer, Ports: []v1.ServicePort{{Port: 80, NodePort: 31080}}}
	tenant = fake.NewClientBuilder().WithScheme(scheme).WithObjects(s).Build()
	hub = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			switch fails--; {
			case fails >= 0:
				return errors.New("away")
			case fails == -1:
				return nil
			}
			b, err := json.Marshal(o)
			if err != nil {
				return err
			}
			kind := metav1.TypeMeta{}
			if err := json.Unmarshal(b, &kind); err != nil {
				return err
			}
			made := client.Object(&v1alpha1.TargetGroup{})
			if kind.Kind == "LoadBalancer" {
				made = &clusterv1.LoadBalancer{}
			}
			if err := json.Unmarshal(b, made); err != nil {
				return err
			}
			return c.Create(ctx, made)
		},
	}).Build()
	return tenant, hub
}

func epochsOf(tenant, hub client.Client) *epochs {
	log, m := slog.New(slog.DiscardHandler), newMetrics("t")
	return &epochs{
		services: &services{tenant: tenant, hub: hub, namespace: "t", filter: service.Filter{Unclassed: true}, defaults: &defaults{}, log: log, metrics: m, propagation: newPropagation(m.propagated),
			loadBalancers: newMemory[service.Wanted](), way: yield.New(func(types.NamespacedName) string { return "" }, func(types.NamespacedName) {})},
		nodes:   &nodes{tenant: tenant, hub: hub, namespace: "t", memory: newMemory[v1alpha1.TargetGroupSpec](), gone: newObserved[string](), log: log, metrics: m},
		contact: &Contact{tenant: tenant, hub: hub, namespace: "t", log: log},
		bond:    &Bond{seen: seen{epoch: 2}}, noted: func() {}, log: log,
	}
}

func TestAnEpochIsNotedOnceTheHubHasEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenant, hub := fakes(t, 3)
		noted := 0
		e := epochsOf(tenant, hub)
		e.noted = func() {
			noted++
			for _, o := range []client.Object{
				&clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: service.Name(key)}},
				&v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: v1alpha1.TargetsNodes + "-0"}},
			} {
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Errorf("noted before it was there: %v", err)
				}
			}
		}
		if err := e.Start(t.Context()); err != nil || noted != 1 || e.bond.noted.Load() != 2 {
			t.Errorf("noted %d times, epoch %d, %v", noted, e.bond.noted.Load(), err)
		}
		if err := e.Start(t.Context()); err != nil || noted != 1 {
			t.Errorf("an epoch that is noted is noted again: %v", err)
		}
	})
}

// What the hub refuses for what it says, or because there are as many as may be, isn't waited for; all else is, ever more slowly.
func TestWhatTheHubRefusesForGoodHoldsNoEpochUp(t *testing.T) {
	some := schema.GroupResource{Resource: "some"}
	full := apierrors.NewForbidden(some, "x", errors.New("exceeded quota: fairlead, requested: count/some=1, used: count/some=12, limited: count/some=12"))
	for _, c := range []struct {
		name, kind string
		err        error
		noted      int64
	}{
		{"no more LoadBalancers", "LoadBalancer", full, 2},
		{"no more TargetGroups", "TargetGroup", full, 2},
		{"an invalid LoadBalancer", "LoadBalancer", apierrors.NewInvalid(schema.GroupKind{}, "x", nil), 2},
		{"a quota that isn't counted yet", "LoadBalancer", apierrors.NewForbidden(some, "x", errors.New("status unknown for quota: fairlead")), 0},
		{"no right to", "TargetGroup", apierrors.NewForbidden(some, "x", errors.New("no")), 0},
		{"an API server that is away", "LoadBalancer", errors.New("away"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenant, hub := fakes(t, -1)
				tries := 0
				e := epochsOf(tenant, interceptor.NewClient(hub, interceptor.Funcs{
					Apply: func(ctx context.Context, to client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
						b, err := json.Marshal(o)
						if err != nil {
							return err
						}
						kind := metav1.TypeMeta{}
						if err := json.Unmarshal(b, &kind); err != nil || kind.Kind != c.kind {
							return errors.Join(err, to.Apply(ctx, o))
						}
						tries++
						return c.err
					},
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := e.Start(ctx); err != nil || e.bond.noted.Load() != c.noted {
					t.Errorf("noted epoch %d, %v", e.bond.noted.Load(), err)
				}
				if tries < 1 || tries > 70 || c.noted == 0 && tries < 60 {
					t.Errorf("%d tries in an hour", tries)
				}
			})
		})
	}
}

func TestWhatBreaksABond(t *testing.T) {
	b := &Bond{seen: seen{clusterUID: "c", hubUID: "h", bound: "c", epoch: 2}}
	for _, c := range []struct {
		name string
		now  seen
		want error
	}{
		{"nothing", b.seen, nil},
		{"the Tenant's binding was lost", seen{clusterUID: "c", hubUID: "h", epoch: 2}, nil},
		{"the hub doesn't say who it is", seen{clusterUID: "c", bound: "c", epoch: 2}, nil},
		{"a hub that knows less of epochs", seen{clusterUID: "c", hubUID: "h", bound: "c"}, nil},
		{"another cluster of the tenant", seen{clusterUID: "x", hubUID: "h", bound: "c", epoch: 2}, errOtherCluster},
		{"bound to another", seen{clusterUID: "c", hubUID: "h", bound: "x", epoch: 2}, errOtherTenant},
		{"another hub", seen{clusterUID: "c", hubUID: "x", bound: "c", epoch: 2}, errOtherHub},
		{"a new epoch", seen{clusterUID: "c", hubUID: "h", bound: "c", epoch: 3}, errNewEpoch},
	} {
		if got := b.broken(c.now); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, wanted %v", c.name, got, c.want)
		}
	}
}
