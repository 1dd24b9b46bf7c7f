package adoption

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// events are those of Proxies, by their names.
type events map[string][]string

func (e events) Event(p *v1alpha1.Proxy, _, _, message string) {
	e[p.Name] = append(e[p.Name], message)
}

// An address that the API server refuses, or that is full, costs that one: those after it are adopted, and stale proxies fenced.
func TestARefusedAddressCostsNoOther(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const refused, missing, disputed, full = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.0"
	here := func(name, pool, why string, thawed int64) *v1alpha1.Proxy {
		p := &v1alpha1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: pool},
			Status: v1alpha1.ProxyStatus{Boot: "b", Phase: v1alpha1.ProxyServing, Reports: "1", ThawedEpoch: thawed, Epoch: thawed},
		}
		if why != "" {
			p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHubChanged, Status: metav1.ConditionTrue, Reason: why}}
		} else {
			p.Status.Through = v1alpha1.Through{Addresses: "999999"}
		}
		return p
	}
	proxies := []*v1alpha1.Proxy{
		here("frozen", "core", v1alpha1.ReasonHubRestored, 0), here("stale", "edge", v1alpha1.ReasonHubRestored, 0),
		here("one", "edge", "", 1), here("two", "edge", "", 1),
	}
	objects := []client.Object{&v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: disputed}, Spec: v1alpha1.AddressSpec{
		Address: disputed, Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
		Holders: []v1alpha1.Holder{{Namespace: "t", Name: "now", Ports: []string{"TCP/80"}}},
	}}}
	crowd := v1alpha1.AddressSpec{Address: full, Pool: "public", ProxyPool: "core", Phase: v1alpha1.AddressGranted}
	for i := range ipam.MaxHolders {
		crowd.Holders = append(crowd.Holders, v1alpha1.Holder{Namespace: "t", Name: fmt.Sprint("lb-", i), Ports: []string{fmt.Sprint("TCP/", 1000+i)}})
	}
	objects = append(objects, &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: full}, Spec: crowd})
	for _, p := range proxies {
		objects = append(objects, p.DeepCopy())
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if o.GetName() == refused {
				return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Address").GroupKind(), refused, nil)
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()

	log := slog.New(slog.DiscardHandler)
	known := fleet.New(fleet.Options{Logger: log, Now: time.Now})
	keeper := ledger.New(ledger.Options{
		Logger: log, Client: hub, Reader: hub, Settled: func(string, proof.Version) bool { return true }, Trouble: known.Trouble,
		PoolsOf: func(string) []string { return []string{"public"} }, Wake: func(ipam.Ref) {}, Changed: func(_, _ []string) {},
	})
	all, err := ipam.ParseRange("192.0.2.0/29")
	if err != nil {
		t.Fatal(err)
	}
	keeper.SetPools([]ipam.Pool{{Name: "public", Share: ipam.ShareNamespace, PerTenant: ipam.Unbounded, Ranges: []ipam.Range{all}}})
	for _, name := range []string{disputed, full} {
		held := &v1alpha1.Address{}
		if err := hub.Get(t.Context(), client.ObjectKey{Name: name}, held); err != nil {
			t.Fatal(err)
		}
		keeper.Observe(held)
	}
	for i, p := range proxies {
		known.SetProxy(p)
		lease := func(at int64) *coordinationv1.Lease {
			renewed := metav1.NewMicroTime(time.Unix(at, 0))
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Annotations: map[string]string{v1alpha1.AnnotationBoot: "b"}}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
		}
		known.ListLease(lease(int64(i)))
		known.SetLease(lease(int64(i) + 100))
	}
	serves := func(proxy string, addresses ...string) {
		r := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: proxy, ResourceVersion: "1"}, Boot: "b"}
		for _, a := range addresses {
			r.Serves = append(r.Serves, v1alpha1.ServedAddress{Address: a, LoadBalancer: "before", Ports: []string{"TCP/80"}})
		}
		if err := known.Reports().Add(r); err != nil {
			t.Fatal(err)
		}
	}
	serves("frozen", full, refused, missing)
	serves("stale", disputed)

	said := events{}
	r := New(Options{Logger: log, Client: hub, Keeper: keeper, Fleet: known, Events: said})
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("the error is %v", err)
	}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: missing}, &v1alpha1.Address{}); err != nil {
		t.Errorf("not adopted: %v", err)
	}
	p := &v1alpha1.Proxy{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "stale"}, p); err != nil || p.Spec.Fenced == nil {
		t.Errorf("not fenced: %v", err)
	}
	if got := said["frozen"]; len(got) != 1 || !strings.Contains(got[0], full+" for LoadBalancer t/before, and 64 LoadBalancers share it already") {
		t.Errorf("events: %q", got)
	}
}

// However many addresses fail, what is logged of them is short, and says how many there are.
func TestFewErrorsAreTold(t *testing.T) {
	if join(nil) != nil {
		t.Error("an error of none")
	}
	failed := make([]error, told+5)
	for i := range failed {
		failed[i] = context.DeadlineExceeded
	}
	if got := strings.Split(join(failed).Error(), "\n"); len(got) != told+1 || got[told] != "and 5 more" {
		t.Errorf("%q", got)
	}
}
