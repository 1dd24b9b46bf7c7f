package controller

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/member"
	rules "fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Members is the controller of Machines and Nodes behind LoadBalancers.
const Members = "member"

// lookForMachines is how often the hub is asked whether it serves Machines, and lets the manager read them, and Nodes.
const lookForMachines = 10 * time.Second

// newMembers makes the reconciler of Machines and Nodes behind LoadBalancers.
func (w *wiring) newMembers() (*member.Reconciler, *endpoint.Reconciler) {
	clusters := endpoint.New(endpoint.Options{
		Logger: w.Logger.With("controller", Members), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(),
	})
	return member.New(member.Options{
		Logger: w.Logger.With("controller", Members), Client: w.client, Cache: w.mgr.GetCache(), Reader: w.mgr.GetAPIReader(), Clusters: clusters,
		Elsewhere: w.witness(), Fleet: w.fleet, Asked: w.groups.Proxies, Providers: w.providers, Versions: w.versions, Events: eventsOf[*clusterv1.LoadBalancer]{w.mgr.GetEventRecorder(w.recorder()), "Release"}, Now: time.Now,
	}), clusters
}

// addMembers follows the Machines of Cluster API, which may be installed at any time, and Nodes; as may the rights to read them.
func (w *wiring) addMembers() error {
	r, clusters := w.newMembers()
	w.Metrics.MustRegister(member.NewCollector(r))
	c, err := w.new(Members, r, 4)
	if err != nil {
		return err
	}
	w.follower.members = c
	if err := w.watches(c,
		watch{of: &discoveryv1.EndpointSlice{}, to: r.OfSlice},
		watch{&v1alpha1.LoadBalancerClass{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			return w.inNamespace(ctx, "", func(l *clusterv1.LoadBalancer) bool { return l.Spec.ClassName == o.GetName() && member.Concerns(l) })
		}, content},
		watch{&v1alpha1.Tenant{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			if t, ok := o.(*v1alpha1.Tenant); ok {
				return w.inNamespace(ctx, t.NamespaceName(), member.Concerns)
			}
			return nil
		}, presence},
	); err != nil {
		return err
	}
	return w.followMembers(c, r, clusters, barrier{r.Queue, w.complete, nil})
}

// followMembers has the controller of members hear of LoadBalancers, TargetGroups, Machines and Nodes.
func (w *wiring) followMembers(c ctrlcontroller.Controller, r *member.Reconciler, clusters *endpoint.Reconciler, b barrier) error {
	var groups predicate.Predicate
	if w.elsewhere != nil { // in the hub it is remember that forgets
		groups = predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool { w.versions.Forget(e.Object); return true }}
	}
	if err := w.watches(c,
		watch{of: &clusterv1.LoadBalancer{}, when: predicate.NewPredicateFuncs(func(o client.Object) bool {
			l, ok := o.(*clusterv1.LoadBalancer)
			return !ok || member.Concerns(l)
		})},
		watch{&v1alpha1.TargetGroup{}, member.OfGroup, groups},
	); err != nil {
		return err
	}
	if err := c.Watch(b); err != nil {
		return err
	}
	return w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		f := following{wiring: w, controller: c, members: r, clusters: clusters, heard: map[schema.GroupVersionKind]bool{}, unread: map[rules.Kind]bool{}}
		for {
			news, err := f.look(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil && news {
				err = r.All(ctx)
			}
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-r.Wanted():
			case <-time.After(lookForMachines):
			}
		}
	}))
}

// following is how the controller of members comes to hear of Machines, which may be installed, and taken away, at any time; so may the
// rights to read them, and Nodes.
type following struct {
	*wiring
	controller ctrlcontroller.Controller
	members    *member.Reconciler
	clusters   *endpoint.Reconciler
	// heard are the kinds that the controller hears of.
	heard map[schema.GroupVersionKind]bool
	// unread: whether a kind can be followed couldn't be read the last time, and the log has it.
	unread map[rules.Kind]bool
}

// look says whether anything has changed about whether Machines and Nodes can be followed. Where that can't be found out, nothing has.
func (f *following) look(ctx context.Context) (news bool, _ error) {
	machine, cluster, err := f.served(ctx)
	news, failed := f.found(rules.Machines, machine, err == nil && (machine.Empty() || cluster.Empty()), err, func() error { return f.hear(ctx, machine, cluster) })
	if failed != nil || f.elsewhere != nil || !f.ofNodes(ctx) {
		return news, failed
	}
	// Nobody is asked for Nodes, and none is held in memory, where no LoadBalancer has any.
	also, failed := f.found(rules.Nodes, member.NodeKind, false, f.mayWatch(ctx, member.NodeKind), func() error { return f.hearNodes(ctx) })
	return news || also, failed
}

// found tells the reconciler what was found out of a kind; absent: the hub doesn't serve it.
func (f *following) found(kind rules.Kind, as schema.GroupVersionKind, absent bool, err error, hear func() error) (news bool, _ error) {
	unread := f.unread[kind]
	f.unread[kind] = err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), absent:
		return f.members.Unwatched(kind), nil
	case err != nil:
		if !unread { // once, for as long as the hub is away
			f.Logger.Error("whether a kind can be watched can't be read", "kind", string(kind), "err", err)
		}
		return f.members.Undecided(kind), nil
	}
	if err := hear(); err != nil {
		return false, fmt.Errorf("watching %ss: %w", kind, err)
	}
	return f.members.Watches(kind, as), nil
}

// ofNodes says that a LoadBalancer has Nodes as its targets, or had.
func (f *following) ofNodes(ctx context.Context) bool {
	if len(f.inNamespace(ctx, "", func(l *clusterv1.LoadBalancer) bool { return build.KindOf(l) == rules.Nodes })) > 0 {
		return true
	}
	list := &v1alpha1.TargetGroupList{}
	if err := f.client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelGeneratedFrom: string(rules.Nodes)}, client.UnsafeDisableDeepCopy); err != nil {
		f.Logger.Error("targetgroups can't be listed", "err", err)
	}
	return len(list.Items) > 0
}

// hearNodes has the controller hear of Nodes, likewise.
func (f *following) hearNodes(ctx context.Context) error {
	if f.heard[member.NodeKind] {
		return nil
	}
	if _, err := f.mgr.GetCache().GetInformer(ctx, &corev1.Node{}); err != nil {
		return err
	}
	if err := f.watches(f.controller, watch{&corev1.Node{}, f.members.OfNode, member.OfInterest}); err != nil {
		return err
	}
	f.heard[member.NodeKind] = true
	return nil
}

// served are the kinds that the hub serves now, and lets this process watch; empty: it serves none.
func (f *following) served(ctx context.Context) (machine, cluster schema.GroupVersionKind, err error) {
	for _, k := range []struct {
		name string
		kind *schema.GroupVersionKind
	}{{"Machine", &machine}, {"Cluster", &cluster}} {
		if *k.kind, err = f.clusters.Served(k.name); err == nil && !k.kind.Empty() {
			err = f.mayWatch(ctx, *k.kind)
		}
		if err != nil {
			return machine, cluster, err
		}
	}
	return machine, cluster, nil
}

// hear has the controller hear of them from now on, until the process ends: an informer whose rights are taken away asks until it has
// them back.
func (f *following) hear(ctx context.Context, machine, cluster schema.GroupVersionKind) error {
	if f.heard[machine] && f.heard[cluster] {
		return nil
	}
	m, c := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(machine)
	c.SetGroupVersionKind(cluster)
	if _, err := f.mgr.GetCache().GetInformer(ctx, m); err != nil { // it waits until the first list is in
		return err
	}
	if err := f.watches(f.controller, watch{m, f.members.OfMachine, nil}, watch{c, f.members.OfCluster, content}); err != nil {
		return err
	}
	f.heard[machine], f.heard[cluster] = true, true
	return nil
}

// mayWatch says why a kind can't be watched: an informer that may not never ends its first list.
func (w *wiring) mayWatch(ctx context.Context, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := w.Watcher.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("listing %ss: %w", kind.Kind, err)
	}
	seen, err := w.Watcher.Watch(ctx, list)
	if err != nil {
		return fmt.Errorf("watching %ss: %w", kind.Kind, err)
	}
	seen.Stop()
	return nil
}
