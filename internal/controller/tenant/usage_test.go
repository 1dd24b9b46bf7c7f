package tenant

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Usage that changes for minutes costs a write each quarter of a minute, however often the Tenant is looked at, and what
// was counted last is written.
func TestUsageIsWrittenRarely(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	writes, now := 0, time.Unix(1000, 0)
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tenant).WithStatusSubresource(&v1alpha1.Tenant{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}}).Build()
	keeper := ledger.New(ledger.Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {}})
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Client: c, Reader: c, Keeper: keeper, Services: func(string) int { return 0 }, Now: func() time.Time { return now }})
	reconciled := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	a := netip.MustParseAddr("10.0.0.1")
	again := reconciled()
	writes = 0
	const seconds = 118
	for range seconds {
		a = a.Next()
		keeper.Observe(&v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: ipam.AddressName(a), UID: types.UID(a.String()), ResourceVersion: "1"},
			Spec: v1alpha1.AddressSpec{Address: a.String(), Pool: "public", Phase: v1alpha1.AddressGranted,
				Holders: []v1alpha1.Holder{{Namespace: "web", Name: "lb-" + a.String(), Ports: []string{"TCP/80"}}}},
		})
		for range 5 { // as each write of its own brings it back
			now = now.Add(200 * time.Millisecond)
			again = reconciled()
		}
	}
	if writes > 12 {
		t.Errorf("%d writes in %d s", writes, seconds)
	}
	if again <= 0 || again > pauseMost {
		t.Fatalf("what was counted last is looked at again after %s", again)
	}
	now = now.Add(again)
	reconciled()
	got := &v1alpha1.Tenant{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: "web"}, got); err != nil {
		t.Fatal(err)
	}
	if u := got.Status.Usage; u == nil || u.Addresses != seconds {
		t.Errorf("usage is %+v, want %d addresses", u, seconds)
	}
}
