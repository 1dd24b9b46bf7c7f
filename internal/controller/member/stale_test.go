package member

import (
	"context"
	"log/slog"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var machineKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}

// lagging reads what a cache has, and writes to the API server.
type lagging struct {
	client.Client
	cache client.Client
}

func (l lagging) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return l.cache.Get(ctx, key, o, opts...)
}

func (l lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.cache.List(ctx, list, opts...)
}

// oneCluster is there, and nothing is wrong with it.
type oneCluster struct{}

func (oneCluster) Served(string) (schema.GroupVersionKind, error) { return machineKind, nil }

func (oneCluster) Look(context.Context, types.NamespacedName) (endpoint.Cluster, error) {
	return endpoint.Cluster{Found: true}, nil
}

// A target drained, and proxies said so; then it was to serve again, and its Machine is deleted before the cache has the TargetGroup. What
// proxies said was of before: the hook stays.
func TestAHookStaysWhereTheCacheLacksThatItsTargetServesAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.AddKnownTypeWithName(machineKind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(machineKind.GroupVersion().WithKind("MachineList"), &unstructured.UnstructuredList{})
	hook := rules.HookKey(clusterv1.HookPreDrain, "api")
	l := &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api", UID: "l", Finalizers: []string{clusterv1.MembersFinalizer}},
		Spec:       clusterv1.LoadBalancerSpec{ClassName: "edge", ClusterName: "prod", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "api"}}},
	}
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}}}
	group := func(generation int64, version string, state v1alpha1.TargetState) *v1alpha1.TargetGroup {
		return &v1alpha1.TargetGroup{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: machines.GroupName("api", 0), UID: "g", Generation: generation, ResourceVersion: version,
				Labels: map[string]string{v1alpha1.LabelFor: "api", v1alpha1.LabelGeneratedFrom: string(rules.Machines), v1alpha1.LabelCluster: "prod"},
			},
			Spec: v1alpha1.TargetGroupSpec{Targets: []v1alpha1.Target{{Name: "a", UID: "a", Addresses: []string{"10.0.0.1"}, State: state}}},
		}
	}
	machine := func() *unstructured.Unstructured {
		m := &unstructured.Unstructured{}
		m.SetGroupVersionKind(machineKind)
		m.SetNamespace("ns")
		m.SetName("a")
		m.SetUID("a")
		m.SetLabels(map[string]string{rules.ClusterNameLabel: "prod", "pool": "api"})
		m.SetFinalizers([]string{"cluster-api"})
		m.SetAnnotations(map[string]string{rules.NameAnnotation: "api", rules.StatusAnnotation: string(rules.Adding), hook: rules.HookValue})
		return m
	}
	for name, c := range map[string]struct {
		live  *v1alpha1.TargetGroup
		stays bool
	}{
		"it serves again": {group(8, "80", v1alpha1.TargetServing), true},
		"it still drains": {group(7, "7", v1alpha1.TargetDraining), false},
	} {
		t.Run(name, func(t *testing.T) {
			build := func(g *v1alpha1.TargetGroup) client.Client {
				return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1.LoadBalancer{}).WithObjects(l.DeepCopy(), class.DeepCopy(), g, machine()).
					WithIndex(&v1alpha1.Tenant{}, kit.TenantByNamespace, func(o client.Object) []string { return []string{o.(*v1alpha1.Tenant).NamespaceName()} }).Build()
			}
			cache, server := build(group(7, "7", v1alpha1.TargetDraining)), build(c.live)
			for _, of := range []client.Client{cache, server} { // the cache has heard that much
				if err := of.Delete(t.Context(), machine()); err != nil {
					t.Fatal(err)
				}
			}
			gone := &proof.Proxy{Name: "edge-1", Pool: "edge", Boot: "b", Live: true, Renewed: true, Reported: true, Settled: true, Through: proof.Vector{TargetGroups: 70}}
			gone.Reports = map[string]*v1alpha1.ProxyReport{"ns": {Members: []v1alpha1.ReportedMember{{GroupUID: "g", TargetUID: "a", Address: "10.0.0.1", State: v1alpha1.ReportedGone}}}}
			quiet := slog.New(slog.DiscardHandler)
			r := New(Options{
				Logger: quiet, Client: lagging{server, cache}, Cache: cache, Reader: server, Clusters: oneCluster{}, Versions: kit.NewVersions(), Now: time.Now,
				Fleet: fleet.New(fleet.Options{Logger: quiet, Now: time.Now}),
				Asked: func(context.Context, *v1alpha1.TargetGroup) ([]*proof.Proxy, error) { return []*proof.Proxy{gone}, nil },
			})
			r.Watches(rules.Machines, machineKind)
			_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "api"}})
			m := machine()
			if e := server.Get(t.Context(), client.ObjectKeyFromObject(m), m); e != nil {
				t.Fatal(e)
			}
			if _, stays := m.GetAnnotations()[hook]; stays != c.stays {
				t.Errorf("the hook is there: %v, annotations %v (%v)", stays, m.GetAnnotations(), err)
			}
		})
	}
}
