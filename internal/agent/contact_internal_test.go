package agent

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// contactInWeather is one whose hub, which knows the Tenant as bound, answers what it is asked for where answers says so.
// asked counts.
func contactInWeather(t *testing.T, answers func(client.Object) bool, asked *int) *Contact {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	system := func(uid types.UID) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	bound := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: v1alpha1.TenantStatus{ClusterUID: "ours", HubEpoch: 3}}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(system("hub"), bound).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			*asked++
			if !answers(o) {
				return apierrors.NewServiceUnavailable("bad weather")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	return &Contact{
		tenant: fake.NewClientBuilder().WithScheme(scheme).WithObjects(system("ours")).Build(), hub: hub,
		namespace: "shop", tenantName: "shop", log: slog.New(slog.DiscardHandler),
	}
}

// However badly a hub answers, what it did answer isn't asked for again, and the next try comes soon.
func TestAnAgentStartsThoughMostAnswersFail(t *testing.T) {
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				luck, asked := rand.New(rand.NewPCG(seed, 1)), 0
				c := contactInWeather(t, func(client.Object) bool { return luck.IntN(3) == 0 }, &asked)
				began := time.Now()
				b, err := c.Await(t.Context())
				if err != nil || b.clusterUID != "ours" || b.hubUID != "hub" || b.epoch != 3 || c.Why() != "" {
					t.Fatalf("%+v, %v", b, err)
				}
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("it took %s and %d requests", took, asked)
				}
			})
		})
	}
}

// What never answers all that is asked is asked ever more slowly.
func TestAnAgentAsksARefusingHubRarely(t *testing.T) {
	for name, answers := range map[string]func(client.Object) bool{
		"it refuses all": func(client.Object) bool { return false },
		"it never says who it is": func(o client.Object) bool {
			_, is := o.(*v1alpha1.Tenant)
			return is
		},
		"it never shows the Lease": func(o client.Object) bool {
			_, is := o.(*coordinationv1.Lease)
			return !is
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c := contactInWeather(t, answers, &asked)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if b, err := c.Await(ctx); err == nil {
					t.Fatalf("%+v", b)
				}
				if asked < 10 || asked > 80 {
					t.Errorf("asked %d times in a minute", asked)
				}
			})
		})
	}
}
