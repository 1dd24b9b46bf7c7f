package member

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// fleetChanged wakes those whose members proxies spoke of, who wait for a word, or of whose proxies another one lives now.
func (r *Reconciler) fleetChanged(c fleet.Change) {
	for g := range c.TargetGroups {
		if name, _, ok := machines.GroupOf(g.Name); ok {
			r.Queue.AddAfter(g.Namespace, name, Pause)
		}
	}
	for pool := range c.Pools {
		lives := alive(r.Fleet.Pool(pool))
		r.mu.Lock()
		others := r.pools[pool] != lives
		r.pools[pool] = lives
		for of, k := range r.known {
			if k.pool == pool && (k.waits || others) {
				r.Queue.AddAfter(of.Namespace, of.Name, Pause)
			}
		}
		r.mu.Unlock()
	}
}

// alive tells who of a pool's proxies counts, and how.
func alive(proxies []*proof.Proxy) string {
	var out strings.Builder
	for _, p := range proxies {
		fmt.Fprintf(&out, "%s %t %t %t %t\n", p.Name, p.Live, p.Out, p.Reported, p.Frozen())
	}
	return out.String()
}

// Concerns says that a LoadBalancer's targets are Machines or Nodes, or were.
func Concerns(l *clusterv1.LoadBalancer) bool {
	return build.KindOf(l) != "" || controllerutil.ContainsFinalizer(l, clusterv1.MembersFinalizer)
}

// OfMachine names the LoadBalancers that a Machine may be a target of, and those that it names, be they there or not.
func (r *Reconciler) OfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	return append(r.inCluster(ctx, o.GetNamespace(), o.GetLabels()[rules.ClusterNameLabel]), named(rules.Machines, o)...)
}

// OfNode names the LoadBalancers that select a Node, and those that it names, likewise.
func (r *Reconciler) OfNode(ctx context.Context, o client.Object) []reconcile.Request {
	return append(r.those(ctx, "", func(l *clusterv1.LoadBalancer) bool {
		if build.KindOf(l) != rules.Nodes {
			return false
		}
		s, err := rules.Nodes.Selector(l)
		return err == nil && s.Matches(labels.Set(o.GetLabels()))
	}), named(rules.Nodes, o)...)
}

// named are the LoadBalancers that an object's annotations speak of.
func named(kind rules.Kind, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, key := range kind.Named(o.GetAnnotations()) {
		if namespace, name, ok := kind.Names(key, o.GetNamespace()); ok {
			out = append(out, request(namespace, name))
		}
	}
	return out
}

// OfInterest lets through what changes a Node's part in a Plan: its status is written all the time.
var OfInterest = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	return !ok || !ok2 || !reflect.DeepEqual(machines.ReadNode(before), machines.ReadNode(after))
}}

// OfCluster names the LoadBalancers of a Cluster's Machines.
func (r *Reconciler) OfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return r.inCluster(ctx, o.GetNamespace(), o.GetName())
}

func (r *Reconciler) inCluster(ctx context.Context, namespace, cluster string) []reconcile.Request {
	return r.those(ctx, namespace, func(l *clusterv1.LoadBalancer) bool {
		name := rules.ClusterName(l)
		return (build.OfMachines(l) || build.UnknownKind(l) != "") && (name == "" || name == cluster)
	})
}

// those names the LoadBalancers of a namespace, or of all where that is "", that match.
func (r *Reconciler) those(ctx context.Context, namespace string, match func(*clusterv1.LoadBalancer) bool) []reconcile.Request {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		r.Logger.Error("loadbalancers can't be listed", "namespace", namespace, "err", err)
	}
	var out []reconcile.Request
	for i := range list.Items {
		if l := &list.Items[i]; match(l) {
			out = append(out, request(l.Namespace, l.Name))
		}
	}
	return out
}

// OfGroup names the LoadBalancer that a TargetGroup was generated for, or is said to be.
func OfGroup(_ context.Context, o client.Object) []reconcile.Request {
	if name := o.GetLabels()[v1alpha1.LabelFor]; name != "" {
		return []reconcile.Request{request(o.GetNamespace(), name)}
	}
	if name, _, ok := machines.GroupOf(o.GetName()); ok {
		return []reconcile.Request{request(o.GetNamespace(), name)}
	}
	return nil
}

// OfSlice names the LoadBalancer of Machines that an EndpointSlice was made for.
func (r *Reconciler) OfSlice(ctx context.Context, o client.Object) []reconcile.Request {
	l := &clusterv1.LoadBalancer{}
	of := types.NamespacedName{Namespace: o.GetNamespace(), Name: service.LoadBalancerOf(o)}
	if err := r.Client.Get(ctx, of, l); err != nil || !Concerns(l) { // one that isn't there yet is looked at when it comes
		return nil
	}
	return []reconcile.Request{{NamespacedName: of}}
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// All wakes all LoadBalancers of Machines and Nodes, and those that were.
func (r *Reconciler) All(ctx context.Context) error {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing LoadBalancers: %w", err)
	}
	for i := range list.Items {
		if Concerns(&list.Items[i]) {
			r.Queue.Add(list.Items[i].Namespace, list.Items[i].Name)
		}
	}
	return nil
}
