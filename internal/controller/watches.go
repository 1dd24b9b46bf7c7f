package controller

import (
	"context"
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/class"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	"fairlead.dev/fairlead/internal/controller/tenant"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// content lets through what changes more than a status.
var content = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
		(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
}}

// membership lets through what changes which objects a selector finds.
var membership = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
}}

// acceptance lets through what changes a TargetGroup's membership or what was said of its targets.
var acceptance = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.TargetGroup)
	after, ok2 := e.ObjectNew.(*v1alpha1.TargetGroup)
	if !ok || !ok2 || membership.Update(e) {
		return true
	}
	said := func(g *v1alpha1.TargetGroup) metav1.Condition {
		if c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionAccepted); c != nil {
			return metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
		}
		return metav1.Condition{Status: metav1.ConditionTrue}
	}
	a, b := said(before), said(after)
	if a.Status != metav1.ConditionFalse && b.Status != metav1.ConditionFalse {
		return false
	}
	return a != b || !slices.Equal(before.Status.WithinQuota, after.Status.WithinQuota)
}}

// presence lets through creation and deletion.
var presence = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() }}

// bounds lets through what changes a ResourceQuota's spec: it has no generation, and its status follows each object.
var bounds = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.ResourceQuota)
	after, ok2 := e.ObjectNew.(*corev1.ResourceQuota)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(before.Spec, after.Spec)
}}

// watch is one more thing that a controller looks at.
type watch struct {
	of client.Object
	// to names what is concerned; nil: the object itself.
	to   func(context.Context, client.Object) []reconcile.Request
	when predicate.Predicate
}

func (w *wiring) watches(c ctrlcontroller.Controller, all ...watch) error {
	for _, x := range all {
		var h handler.EventHandler = &handler.EnqueueRequestForObject{}
		if x.to != nil {
			h = handler.EnqueueRequestsFromMapFunc(x.to)
		}
		var when []predicate.Predicate
		if x.when != nil {
			when = append(when, x.when)
		}
		if err := c.Watch(source.Kind(w.mgr.GetCache(), x.of, h, when...)); err != nil {
			return err
		}
	}
	return nil
}

func key(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func (w *wiring) addLoadBalancers() error {
	c, err := w.new(LoadBalancers, w.loadBalancers, atOnce)
	if err != nil {
		return err
	}
	w.follower.loadBalancers = c
	if err := w.watches(c,
		watch{of: &clusterv1.LoadBalancer{}},
		watch{&v1alpha1.TargetGroup{}, w.selecting, acceptance},
		watch{&v1alpha1.TargetGroup{}, w.selectingByService, content},
		watch{&corev1.Service{}, madeFor, nil},
		watch{&discoveryv1.EndpointSlice{}, madeFor, nil},
		watch{&v1alpha1.LoadBalancerClass{}, w.ofClass, content},
		watch{&v1alpha1.Tenant{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			if t, ok := o.(*v1alpha1.Tenant); ok {
				return w.inNamespace(ctx, t.NamespaceName(), func(*clusterv1.LoadBalancer) bool { return true })
			}
			return nil
		}, content},
		watch{namespaces(), func(_ context.Context, o client.Object) []reconcile.Request {
			var out []reconcile.Request
			for _, r := range w.keeper.Waiting(o.GetName()) {
				out = append(out, key(r.Namespace, r.Name))
			}
			return out
		}, membership},
	); err != nil {
		return err
	}
	if err := c.Watch(barrier{w.loadBalancers.Queue, w.complete, w.loadBalancers.Prime}); err != nil {
		return err
	}
	addresses, err := w.new("address", w.addresses, atOnce)
	if err != nil {
		return err
	}
	if err := w.watches(addresses,
		watch{&v1alpha1.AddressPool{}, func(_ context.Context, o client.Object) []reconcile.Request {
			// Its quarantine, what it does about silent proxies, or whether it is being restored.
			return named(slices.Concat(w.keeper.ReleasingInPool(o.GetName()), w.keeper.Held(o.GetName())))
		}, content},
		// Nobody waits for the missing holders of who is done away with.
		watch{&v1alpha1.Tenant{}, func(_ context.Context, o client.Object) []reconcile.Request {
			if t, ok := o.(*v1alpha1.Tenant); ok && t.DeletionTimestamp != nil {
				return named(w.keeper.HeldFor(t.NamespaceName()))
			}
			return nil
		}, content},
		watch{namespaces(), func(_ context.Context, o client.Object) []reconcile.Request {
			if o.GetDeletionTimestamp() != nil {
				return named(w.keeper.HeldFor(o.GetName()))
			}
			return nil
		}, content},
	); err != nil {
		return err
	}
	if err := addresses.Watch(barrier{w.addresses.Queue, w.complete, func(context.Context) error {
		for _, name := range w.keeper.Names() {
			w.addresses.Queue.Add("", name)
		}
		return nil
	}}); err != nil {
		return err
	}
	adopted, err := w.new("adoption", w.adoption, 1)
	if err != nil {
		return err
	}
	// What the ledger says, and where addresses come from, may make a claim good, or a dispute.
	look := func(context.Context, client.Object) []reconcile.Request { w.adoption.Look(); return nil }
	if err := w.watches(adopted, watch{&v1alpha1.Address{}, look, content}, watch{&v1alpha1.AddressPool{}, look, content}); err != nil {
		return err
	}
	asks, err := w.new("ask", w.asks, atOnce)
	if err != nil {
		return err
	}
	if err := asks.Watch(barrier{w.asks.Queue, w.complete, func(context.Context) error { w.asks.Begin(); return nil }}); err != nil {
		return err
	}
	machines, err := w.new("machine", w.machines, 1)
	if err != nil {
		return err
	}
	if err := w.watches(machines, watch{of: &v1alpha1.Proxy{}, when: content}); err != nil {
		return err
	}
	if err := machines.Watch(barrier{w.machines.Queue, w.complete, nil}); err != nil {
		return err
	}
	return adopted.Watch(barrier{w.adoption.Queue, w.complete, func(context.Context) error { w.adoption.Look(); return nil }})
}

func named(addresses []ledger.Address) []reconcile.Request {
	var out []reconcile.Request
	for _, a := range addresses {
		out = append(out, key("", a.Object.Name))
	}
	return out
}

func namespaces() client.Object {
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(kit.NamespaceKind)
	return n
}

// inNamespace names the LoadBalancers of a namespace that match.
func (w *wiring) inNamespace(ctx context.Context, namespace string, match func(*clusterv1.LoadBalancer) bool) []reconcile.Request {
	list := &clusterv1.LoadBalancerList{}
	if err := w.client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		w.Logger.Error("loadbalancers can't be listed", "namespace", namespace, "err", err)
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if l := &list.Items[i]; match(l) {
			out = append(out, key(l.Namespace, l.Name))
		}
	}
	return out
}

// selecting names the LoadBalancers that select a TargetGroup, and those that did before its labels changed.
func (w *wiring) selecting(ctx context.Context, o client.Object) []reconcile.Request {
	return w.inNamespace(ctx, o.GetNamespace(), func(l *clusterv1.LoadBalancer) bool {
		for _, t := range l.Status.Targets {
			if t.Name == o.GetName() {
				return true
			}
		}
		s, err := build.Selector(l)
		return err == nil && s.Matches(labels.Set(o.GetLabels()))
	})
}

// selectingByService is selecting, of those whose members a Service of the hub has.
func (w *wiring) selectingByService(ctx context.Context, o client.Object) []reconcile.Request {
	return slices.DeleteFunc(w.selecting(ctx, o), func(r reconcile.Request) bool {
		return !w.services.Has(ref{Namespace: r.Namespace, Name: r.Name})
	})
}

// madeFor names the LoadBalancer that a Service or an EndpointSlice was made for.
func madeFor(_ context.Context, o client.Object) []reconcile.Request {
	if name := service.LoadBalancerOf(o); name != "" {
		return []reconcile.Request{key(o.GetNamespace(), name)}
	}
	return nil
}

// ofClass names the LoadBalancers of a class, and those that have none yet.
func (w *wiring) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	return w.inNamespace(ctx, "", func(l *clusterv1.LoadBalancer) bool {
		return l.Spec.ClassName == o.GetName() || l.Spec.ClassName == ""
	})
}

func (w *wiring) addClasses() error {
	c, err := w.new(Classes, &class.Reconciler{Client: w.client}, 1)
	if err != nil {
		return err
	}
	return w.watches(c,
		watch{of: &v1alpha1.LoadBalancerClass{}},
		watch{&v1alpha1.AddressPool{}, func(ctx context.Context, _ client.Object) []reconcile.Request {
			list := &v1alpha1.LoadBalancerClassList{}
			if err := w.client.List(ctx, list); err != nil {
				w.Logger.Error("classes can't be listed", "err", err)
			}
			var out []reconcile.Request
			for i := range list.Items {
				out = append(out, key("", list.Items[i].Name))
			}
			return out
		}, presence},
		watch{&clusterv1.LoadBalancer{}, w.classInDeletion, presence},
	)
}

// classInDeletion names a LoadBalancer's class if that is to be deleted: it may have been the last that held it.
func (w *wiring) classInDeletion(ctx context.Context, o client.Object) []reconcile.Request {
	l, ok := o.(*clusterv1.LoadBalancer)
	if !ok || l.Spec.ClassName == "" {
		return nil
	}
	c := &v1alpha1.LoadBalancerClass{}
	if err := w.client.Get(ctx, types.NamespacedName{Name: l.Spec.ClassName}, c); err != nil || c.DeletionTimestamp == nil {
		return nil
	}
	return []reconcile.Request{key("", c.Name)}
}

func (w *wiring) addPools() error {
	c, err := w.new(Pools, w.pools, 1)
	if err != nil {
		return err
	}
	if err := w.watches(c, watch{of: &v1alpha1.AddressPool{}, when: content}); err != nil {
		return err
	}
	return c.Watch(barrier{w.pools.Queue, w.complete, nil})
}

// tenantsOf names the Tenants of a namespace that an object tells.
func (w *wiring) tenantsOf(namespace func(client.Object) string) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		list := &v1alpha1.TenantList{}
		if err := w.client.List(ctx, list, client.MatchingFields{kit.TenantByNamespace: namespace(o)}); err != nil {
			w.Logger.Error("tenants can't be listed", "namespace", namespace(o), "err", err)
		}
		var out []reconcile.Request
		for i := range list.Items {
			out = append(out, key("", list.Items[i].Name))
		}
		return out
	}
}

func (w *wiring) addTenants() error {
	c, err := w.new(Tenants, w.tenants, 4)
	if err != nil {
		return err
	}
	byLabel := func(_ context.Context, o client.Object) []reconcile.Request {
		if name := o.GetLabels()[v1alpha1.LabelTenant]; name != "" {
			return []reconcile.Request{key("", name)}
		}
		return nil
	}
	inside := w.tenantsOf(func(o client.Object) string { return o.GetNamespace() })
	later := func(ctx context.Context, o client.Object) []reconcile.Request {
		for _, r := range inside(ctx, o) {
			w.tenants.Queue.AddAfter("", r.Name, tenant.Pause)
		}
		return nil
	}
	if err := w.watches(c,
		watch{of: &v1alpha1.Tenant{}},
		watch{namespaces(), w.tenantsOf(func(o client.Object) string { return o.GetName() }), content},
		watch{&coordinationv1.Lease{}, inside, predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == v1alpha1.AgentLease })},
		watch{&v1alpha1.TargetGroup{}, later, content},
		watch{&clusterv1.LoadBalancer{}, later, presence},
		watch{&corev1.ServiceAccount{}, byLabel, presence},
		watch{&corev1.ResourceQuota{}, byLabel, bounds},
		watch{&rbacv1.RoleBinding{}, byLabel, nil}, // these three have no generation
		watch{&rbacv1.ClusterRole{}, byLabel, nil},
		watch{&rbacv1.ClusterRoleBinding{}, byLabel, nil},
	); err != nil {
		return err
	}
	return c.Watch(barrier{w.tenants.Queue, w.complete, nil})
}

func (w *wiring) addTargetGroups() error {
	c, err := w.new(TargetGroups, w.groups, 4)
	if err != nil {
		return err
	}
	later := func(_ context.Context, o client.Object) []reconcile.Request {
		w.groups.Queue.AddAfter(o.GetNamespace(), o.GetName(), targetgroup.Pause)
		return nil
	}
	if err := w.watches(c,
		watch{&v1alpha1.TargetGroup{}, later, content},
		watch{&v1alpha1.Tenant{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			t, ok := o.(*v1alpha1.Tenant)
			if !ok {
				return nil
			}
			list := &v1alpha1.TargetGroupList{}
			if err := w.client.List(ctx, list, client.InNamespace(t.NamespaceName()), client.UnsafeDisableDeepCopy); err != nil {
				w.Logger.Error("targetgroups can't be listed", "namespace", t.NamespaceName(), "err", err)
			}
			for i := range list.Items {
				later(ctx, &list.Items[i])
			}
			return nil
		}, content},
	); err != nil {
		return err
	}
	return c.Watch(barrier{w.groups.Queue, w.complete, nil})
}
