package endpoint

import (
	"context"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// remember notes which LoadBalancer a Cluster names, so that it is woken by that one; "": none.
func (r *Reconciler) remember(cluster types.NamespacedName, named string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.named[cluster]; before != "" && before != named {
		of := types.NamespacedName{Namespace: cluster.Namespace, Name: before}
		if delete(r.naming[of], cluster.Name); len(r.naming[of]) == 0 {
			delete(r.naming, of)
		}
	}
	if named == "" {
		delete(r.named, cluster)
		return
	}
	r.named[cluster] = named
	of := types.NamespacedName{Namespace: cluster.Namespace, Name: named}
	if r.naming[of] == nil {
		r.naming[of] = map[string]bool{}
	}
	r.naming[of][cluster.Name] = true
}

// OfLoadBalancer names the Clusters whose endpoint a LoadBalancer may have to do with.
func (r *Reconciler) OfLoadBalancer(_ context.Context, o client.Object) []reconcile.Request {
	l, ok := o.(*clusterv1.LoadBalancer)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	add := func(cluster string) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: l.Namespace, Name: cluster}})
	}
	said := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished) != nil
	if name := member.ClusterName(l); name != "" && (l.Spec.Role != clusterv1.RoleWorkload || said) {
		add(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster := range r.naming[client.ObjectKeyFromObject(l)] {
		add(cluster)
	}
	return out
}

// OfService names the Clusters whose ClusterEndpoints refer to a Service.
func (r *Reconciler) OfService(ctx context.Context, s client.Object) []reconcile.Request {
	list := &clusterv1.ClusterEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(s.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		r.Logger.Warn("who refers to a Service can't be read", "service", client.ObjectKeyFromObject(s).String(), "err", err)
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if e := &list.Items[i]; e.Spec.ServiceRef != nil && e.Spec.ServiceRef.Name == s.GetName() {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Cluster}})
		}
	}
	return out
}

// Reached lets through what changes where a Service is reached.
var Reached = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Service)
	after, ok2 := e.ObjectNew.(*corev1.Service)
	return !ok || !ok2 || before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer)
}}

// gone forgets a Cluster that isn't there.
func (r *Reconciler) gone(cluster types.NamespacedName) {
	r.remember(cluster, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told, cluster)
	delete(r.reached, cluster)
}

// Publication lets through what changes what a LoadBalancer publishes.
var Publication = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*clusterv1.LoadBalancer)
	after, ok2 := e.ObjectNew.(*clusterv1.LoadBalancer)
	if !ok || !ok2 {
		return true
	}
	said := func(l *clusterv1.LoadBalancer, kind string) metav1.Condition {
		c := meta.FindStatusCondition(l.Status.Conditions, kind)
		if c == nil {
			return metav1.Condition{}
		}
		return metav1.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration}
	}
	if before.UID != after.UID || before.Generation != after.Generation || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) {
		return true
	}
	for _, kind := range []string{clusterv1.ConditionProgrammed, clusterv1.ConditionEndpointPublished, clusterv1.ConditionMirrored} {
		if said(before, kind) != said(after, kind) {
			return true
		}
	}
	return !equality.Semantic.DeepEqual(before.Status.Addresses, after.Status.Addresses)
}}
