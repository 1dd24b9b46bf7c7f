package machine

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestWhoMayBeFenced(t *testing.T) {
	dead := &proof.Proxy{Name: "dead"}
	serving := func(change func(*proof.Proxy)) *proof.Proxy {
		p := &proof.Proxy{Name: "other", Live: true, Renewed: true, Reported: true, Through: proof.Vector{Addresses: 9}}
		change(p)
		return p
	}
	frozen := func(p *proof.Proxy) { p.HubChanged, p.Through = v1alpha1.ReasonHubRestored, proof.Vector{} }
	plain := serving(func(*proof.Proxy) {})
	for name, c := range map[string]struct {
		pool []*proof.Proxy
		may  bool
	}{
		"another serves":                        {[]*proof.Proxy{dead, plain}, true},
		"it is alone":                           {[]*proof.Proxy{dead}, false},
		"all are silent":                        {[]*proof.Proxy{dead, serving(func(p *proof.Proxy) { p.Live = false })}, false},
		"the other starts":                      {[]*proof.Proxy{dead, serving(func(p *proof.Proxy) { p.Reported = false })}, false},
		"the other is fenced":                   {[]*proof.Proxy{dead, serving(func(p *proof.Proxy) { p.Out = true })}, false},
		"the other is yet to be heard of":       {[]*proof.Proxy{dead, serving(func(p *proof.Proxy) { p.Renewed = false })}, false},
		"the other's hub has changed":           {[]*proof.Proxy{dead, serving(frozen)}, false},
		"a third one's hub has changed":         {[]*proof.Proxy{dead, plain, serving(frozen)}, false},
		"the other waits for an agent":          {[]*proof.Proxy{dead, serving(func(p *proof.Proxy) { p.HubChanged = v1alpha1.ReasonHubRestored })}, false},
		"a third one waits for an agent":        {[]*proof.Proxy{dead, plain, serving(func(p *proof.Proxy) { p.HubChanged = v1alpha1.ReasonHubRestored })}, true},
		"it serves on what it had":              {[]*proof.Proxy{{Name: "dead", HubChanged: v1alpha1.ReasonHubRestored}, plain}, false},
		"it lives":                              {[]*proof.Proxy{{Name: "dead", Live: true, Renewed: true}, plain}, false},
		"it is fenced":                          {[]*proof.Proxy{{Name: "dead", Out: true}, plain}, false},
		"it is not of the pool that it said of": {[]*proof.Proxy{plain}, false},
	} {
		if may := mayFence("dead", c.pool); may != c.may {
			t.Errorf("%s: %v", name, may)
		}
	}
}

// classOf is one that a pool of proxies serves with the addresses of one pool.
func classOf(proxies, addresses string) *v1alpha1.LoadBalancerClassSpec {
	return &v1alpha1.LoadBalancerClassSpec{AddressPools: []string{addresses}, Proxy: &v1alpha1.ClassProxy{Pool: proxies}}
}

// A hub that was put together again has the Proxies, and no Machines yet.
func TestAMachineThatIsMissingIsNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		heard, restoring, machine, fenced bool
		class                             *v1alpha1.LoadBalancerClassSpec
		ledger                            []string // the AddressPools of which it serves addresses
	}{
		"gone":                       {heard: true, fenced: true},
		"there":                      {heard: true, machine: true},
		"without a Lease":            {},
		"while a pool is restored":   {heard: true, restoring: true},
		"while its pool is restored": {heard: true, restoring: true, class: classOf("edge", "public")},
		"while another is restored":  {heard: true, restoring: true, class: classOf("edge", "private"), fenced: true},
		"while others' is restored":  {heard: true, restoring: true, class: classOf("core", "public")},
		"without a Lease, and there": {machine: true},
		"while one of the ledger is": {heard: true, restoring: true, class: classOf("edge", "private"), ledger: []string{"public"}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := kinds()[0]
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind("MachineList"), &unstructured.UnstructuredList{})
			ref := &v1alpha1.MachineReference{Namespace: "machines", Name: "m"}
			dead := proxy("dead", ref)
			objects := []client.Object{dead, &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "public"}, Spec: v1alpha1.AddressPoolSpec{Restoring: c.restoring}}}
			if c.class != nil {
				objects = append(objects, &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: *c.class})
			}
			if c.machine {
				m := &unstructured.Unstructured{}
				m.SetGroupVersionKind(kind)
				m.SetNamespace(ref.Namespace)
				m.SetName(ref.Name)
				objects = append(objects, m)
			}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			kinds := meta.NewDefaultRESTMapper(nil)
			kinds.Add(kind, meta.RESTScopeNamespace)

			clock := time.Now()
			log := slog.New(slog.DiscardHandler)
			last := lease("dead", 1)
			proxies := fleet.New(fleet.Options{Logger: log, Now: func() time.Time { return clock }, Lease: func(context.Context, string) (*coordinationv1.Lease, error) { return last, nil }})
			r := New(Options{Logger: log, Client: hub, Reader: hub, Kinds: kinds, Fleet: proxies, PoolsServedBy: func(string) []string { return c.ledger }})
			proxies.SetProxy(dead)
			proxies.SetProxy(proxy("other", nil))
			if c.heard {
				proxies.ListLease(last)
			}
			clock = clock.Add(proof.Silence)
			proxies.SetLease(lease("other", 2))
			proxies.LookForSilent(t.Context())
			key := client.ObjectKeyFromObject(dead)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			p := &v1alpha1.Proxy{}
			if err := hub.Get(t.Context(), key, p); err != nil || (p.Spec.Fenced != nil) != c.fenced {
				t.Errorf("fenced: %+v, %v", p.Spec.Fenced, err)
			}
		})
	}
}

func proxy(name string, machine *v1alpha1.MachineReference) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProxySpec{Pool: "edge", MachineRef: machine},
		Status: v1alpha1.ProxyStatus{Boot: "b", Phase: v1alpha1.ProxyServing, Through: v1alpha1.Through{Addresses: "9"}},
	}
}

func lease(name string, at int64) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(time.Unix(at, 0))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationBoot: "b"}}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
}
