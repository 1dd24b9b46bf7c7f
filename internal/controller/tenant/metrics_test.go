package tenant

import (
	"log/slog"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Tenant's agent is shown as heard when a renewal was seen, by this manager's clock; not before it came, and no more once the Tenant
// is gone. Another Tenant of the name begins anew.
func TestWhenAnAgentWasHeard(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(1000, 0)
	web := func(uid types.UID) *v1alpha1.Tenant {
		return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: uid}}
	}
	lease := func(second int64) *coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Unix(second, 0))
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: v1alpha1.AgentLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Tenant{}).Build()
	keeper := ledger.New(ledger.Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {}})
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Keeper: keeper, Services: func(string) int { return 0 }, Now: func() time.Time { return now }})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(r))
	shown := func() (heard float64, series int) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				if m.Label[0].GetValue() != "web" {
					t.Errorf("it is of %v", m.Label)
				}
				heard, series = m.Gauge.GetValue(), series+1
			}
		}
		return heard, series
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	renew := func() error {
		l, next := lease(0), lease(6)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil {
			return err
		}
		l.Spec = next.Spec
		return c.Update(t.Context(), l)
	}
	remove := func() error {
		is := web("")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(is), is); err != nil {
			return err
		}
		is.Finalizers = nil // by force
		if err := c.Update(t.Context(), is); err != nil {
			return err
		}
		return c.Delete(t.Context(), is)
	}
	for _, step := range []struct {
		what   string
		change func() error
		heard  float64
		series int
	}{
		{"it never came", func() error { return c.Create(t.Context(), web("one")) }, 0, 0},
		{"it came", func() error { return c.Create(t.Context(), lease(5)) }, 1010, 1}, // its own clock is far behind
		{"it is silent", func() error { return nil }, 1010, 1},
		{"it renewed its Lease", func() error { return renew() }, 1030, 1},
		{"a Tenant of that name that was made anew", func() error {
			if err := remove(); err != nil {
				return err
			}
			return c.Create(t.Context(), web("two"))
		}, 1040, 1},
		{"it is gone", remove, 0, 0},
	} {
		do(step.change())
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "web"}})
		do(err)
		if heard, series := shown(); heard != step.heard || series != step.series {
			t.Errorf("%s: heard %v in %d series, want %v in %d", step.what, heard, series, step.heard, step.series)
		}
		now = now.Add(10 * time.Second)
	}
}
