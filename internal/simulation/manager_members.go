package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/member"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newMembers makes the product's reconciler of Machines.
func (m *manager) newMembers(cached client.Client, live client.Reader) {
	m.link.kinds = append(m.link.kinds, machineKind, clusterKind)
	quiet := slog.New(slog.DiscardHandler)
	served := meta.NewDefaultRESTMapper(nil)
	served.Add(machineGVK, meta.RESTScopeNamespace)
	served.Add(clusterGVK, meta.RESTScopeNamespace)
	m.mbQueue = newQueue()
	m.members = member.New(member.Options{
		Logger: quiet, Client: cached, Cache: machineCache{m: m}, Reader: live,
		Clusters: endpoint.New(endpoint.Options{Logger: quiet, Client: cached, Reader: live, Kinds: served}),
		Fleet:    m.fleet, Asked: m.asked, Versions: m.versions, Now: time.Now,
	})
	m.members.Watches(rules.Machines, machineGVK)
}

// asked are the proxies that may send to a TargetGroup's targets.
func (m *manager) asked(ctx context.Context, g *v1alpha1.TargetGroup) ([]*proof.Proxy, error) {
	all, err := m.groups.Proxies(ctx, g)
	if m.w.has(OneProxyAsked) && len(all) > 1 {
		all = all[:1]
	}
	if m.w.has(OldWordCounts) {
		for i, p := range all {
			forged := *p
			forged.Through.TargetGroups = math.MaxInt64
			all[i] = &forged
		}
	}
	if m.w.has(OpenToMachinesForgotten) {
		for i, p := range all {
			all[i] = forgetOpen(p, g.Namespace)
		}
	}
	return all, err
}

// forgetOpen takes what drains for gone.
func forgetOpen(p *proof.Proxy, namespace string) *proof.Proxy {
	r := p.Reports[namespace]
	if r == nil {
		return p
	}
	forged, report := *p, r.DeepCopy()
	for i := range report.Members {
		if report.Members[i].State == v1alpha1.ReportedDraining {
			report.Members[i].State = v1alpha1.ReportedGone
		}
	}
	forged.Reports = maps.Clone(p.Reports)
	forged.Reports[namespace] = report
	return &forged
}

// deciding is what a round of the members' reconciler begins with.
type deciding struct {
	// lb as the cache has it; nil: it hasn't.
	lb *clusterv1.LoadBalancer
	// writes counts those that the server had taken.
	writes int
	m      *manager
	// name of the LoadBalancer.
	name string
	// frozen is a proxy that the manager knew to serve on what it had before the hub changed; "": none.
	frozen string
	standing
	// orphaned: targets serve, and none of their Machines is there, nor another one that stays.
	orphaned bool
	// found are the Machines that it found to be well.
	found map[string]finding
}

// workMembers has the Machines of one LoadBalancer reconciled. False: there is none.
func (m *manager) workMembers() bool {
	if m.members == nil {
		return false
	}
	return m.work(m.mbQueue, reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		l, _ := m.cache[loadBalancers][r.NamespacedName].(*clusterv1.LoadBalancer)
		m.deciding = m.w.decides(m, r.Name, l)
		defer func() { m.deciding = nil }()
		return m.members.Reconcile(ctx, r)
	}))
}

// wakeMembers has LoadBalancers looked at, as the product's watches do.
func (m *manager) wakeMembers(k kind, before, o client.Object) {
	if m.members == nil {
		return
	}
	ctx := context.Background()
	wake := func(rs []reconcile.Request) {
		for _, r := range rs {
			m.mbQueue.Add(r)
		}
	}
	switch k {
	case loadBalancers:
		if member.Concerns(o.(*clusterv1.LoadBalancer)) {
			m.mbQueue.Add(reconcile.Request{NamespacedName: keyOf(o)})
		}
	case targetGroups:
		wake(member.OfGroup(ctx, o))
	case machineKind:
		if before != nil {
			wake(m.members.OfMachine(ctx, before))
		}
		wake(m.members.OfMachine(ctx, o))
	case clusterKind:
		wake(m.members.OfCluster(ctx, o))
	case classes:
		for _, key := range sortedKeys(m.cache[loadBalancers]) {
			if member.Concerns(m.cache[loadBalancers][key].(*clusterv1.LoadBalancer)) {
				m.mbQueue.Add(reconcile.Request{NamespacedName: key})
			}
		}
	}
}

// machineCache reads Machines from a manager's cache.
type machineCache struct {
	client.Reader // what is not below is not used
	m             *manager
}

func (c machineCache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	l, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("simulation: nobody should list %T", list)
	}
	for _, key := range sortedKeys(c.m.cache[machineKind]) {
		if key.Namespace == o.Namespace {
			l.Items = append(l.Items, *c.m.cache[machineKind][key].(*unstructured.Unstructured))
		}
	}
	return nil
}

// List lists Machines and TargetGroups from the API server itself.
func (r *liveReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	if l, ok := list.(*v1alpha1.TargetGroupList); ok {
		all, err := r.m.link.list(targetGroups)
		for _, x := range all {
			if x.GetNamespace() == o.Namespace && o.LabelSelector.Matches(labels.Set(x.GetLabels())) {
				l.Items = append(l.Items, *x.(*v1alpha1.TargetGroup).DeepCopy())
			}
		}
		return err
	}
	l, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return fmt.Errorf("simulation: nobody should list %T", list)
	}
	all, err := r.m.link.list(machineKind)
	for _, x := range all {
		if x.GetNamespace() == o.Namespace {
			l.Items = append(l.Items, *x.(*unstructured.Unstructured))
		}
	}
	return err
}

// kindOfUnstructured is the resource of an object of Cluster API.
func kindOfUnstructured(o *unstructured.Unstructured) kind {
	if o.GetKind() == machineGVK.Kind {
		return machineKind
	}
	return clusterKind
}

// madeFor is the LoadBalancer that a TargetGroup was made for, from Machines; "": none.
func madeFor(g *v1alpha1.TargetGroup) string {
	if g.Labels[v1alpha1.LabelGeneratedFrom] != string(rules.Machines) {
		return ""
	}
	return g.Labels[v1alpha1.LabelFor]
}

func controlKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: operatorName, Name: name}
}
