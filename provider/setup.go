package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// Options of a provider's controller.
type Options struct {
	// Kind is an empty object of the provider's kind.
	Kind     Object
	Provider Provider
	Supports Supports
	// Settle is how long new connections may still come after the technology says that a member drains, or has left.
	Settle time.Duration
	// InfraClusters are the kinds of InfraCluster of the provider's own family: where such a one is the Cluster's, its
	// credentials are used for objects that name none. The provider needs the right to get them.
	InfraClusters []InfraCluster
	// Timeout of each call of the provider. Default: 30 s.
	Timeout time.Duration
	// Poll is how soon what is under way is looked at again; while nothing changes, ever more slowly. Default: 1 s.
	Poll time.Duration
	// Resync is how often everything is compared with what is outside. Default: 1 min.
	Resync time.Duration
	// Concurrent is how many objects are seen to at once. Default: 16.
	Concurrent int
	// Resolver for the condition DNSResolvable. Default: the host's.
	Resolver Resolver
}

// AddToScheme adds the kinds that the controller reads. The provider's own are for its author to add.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), clusterv1.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// indexID is the cache's index of the provider's kind by spec.id.
const indexID = "provider.fairlead.dev/id"

// Setup adds the controller of a provider's kind to a manager, whose scheme has the kind and those of AddToScheme. Several
// kinds may share a manager.
func Setup(ctx context.Context, mgr manager.Manager, o Options) error {
	if o.Kind == nil || o.Provider == nil {
		return errors.New("provider.Options: Kind and Provider must be set")
	}
	gvk, err := apiutil.GVKForObject(o.Kind, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("provider.Options: Kind: %w; add it to the manager's scheme", err)
	}
	o.Timeout, o.Poll, o.Resync = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Poll, DefaultPoll), cmp.Or(o.Resync, DefaultResync)
	o.Concurrent = cmp.Or(o.Concurrent, 16)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	list, err := mgr.GetScheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return fmt.Errorf("provider.Options: Kind: %w; add its list to the manager's scheme", err)
	}
	objects, isList := list.(client.ObjectList)
	if !isList {
		return fmt.Errorf("provider.Options: Kind: %T is no list of objects", list)
	}
	back := make(chan event.GenericEvent)
	r := &reconciler{
		Options: o, kind: gvk, list: objects, client: mgr.GetClient(), live: mgr.GetAPIReader(), kinds: mgr.GetRESTMapper(),
		uids:   map[types.NamespacedName]types.UID{},
		events: mgr.GetEventRecorder(strings.ToLower(gvk.Kind)), log: mgr.GetLogger().WithValues("kind", gvk.Kind), records: map[types.UID]*record{},
	}
	r.calls = &calls{timeout: o.Timeout, out: map[types.UID]string{}, back: func(obj Object) {
		select {
		case back <- event.GenericEvent{Object: obj}:
		case <-ctx.Done():
		}
	}}
	if err := mgr.GetFieldIndexer().IndexField(ctx, o.Kind, indexID, func(obj client.Object) []string {
		if spec, ok := specOf(obj); ok && spec.ID != "" {
			return []string{spec.ID}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing %s: %w", gvk.Kind, err)
	}
	return r.watch(mgr, back)
}

// changed lets through what its writers changed, not what became of it.
var changed = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{},
	predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return (e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}})

// admitted lets through what the manager says of a Tenant's quota.
var admitted = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.TargetGroup)
	after, ok2 := e.ObjectNew.(*v1alpha1.TargetGroup)
	return ok && ok2 && (before.Status.BeyondQuota != after.Status.BeyondQuota || !slices.Equal(before.Status.WithinQuota, after.Status.WithinQuota))
}}

func (r *reconciler) watch(mgr manager.Manager, back chan event.GenericEvent) error {
	b := builder.ControllerManagedBy(mgr).Named(strings.ToLower(r.kind.Kind)).
		For(r.Kind, builder.WithPredicates(changed)).
		Watches(&clusterv1.LoadBalancer{}, handler.EnqueueRequestsFromMapFunc(r.ofLoadBalancer), builder.WithPredicates(changed)).
		Watches(&v1alpha1.TargetGroup{}, handler.EnqueueRequestsFromMapFunc(r.ofTargetGroup), builder.WithPredicates(predicate.Or(changed, admitted))).
		Watches(&v1alpha1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.ofTenant), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(back, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: r.Concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](r.Poll, slowest),
		})
	// Where Cluster API isn't installed there are no Clusters to wait for.
	if m, err := r.kinds.RESTMapping(clusterKind); err == nil {
		c := &unstructured.Unstructured{}
		c.SetGroupVersionKind(m.GroupVersionKind)
		b = b.Watches(c, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(changed))
	} else if !meta.IsNoMatchError(err) {
		return fmt.Errorf("looking for kind %s: %w", clusterKind, err)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("adding the controller of %s: %w", r.kind.Kind, err)
	}
	return nil
}

// ofLoadBalancer are the objects that implement it: the one that it refers to, and those that it owns.
func (r *reconciler) ofLoadBalancer(ctx context.Context, o client.Object) []reconcile.Request {
	l, ok := o.(*clusterv1.LoadBalancer)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	if name, ok := r.refersTo(l); ok {
		out = append(out, request(l.Namespace, name))
	}
	return append(out, r.where(ctx, l.Namespace, func(obj client.Object) bool { return ownedBy(obj, l.Name) })...)
}

// ofTargetGroup are the objects of the LoadBalancers that send to it.
func (r *reconciler) ofTargetGroup(ctx context.Context, o client.Object) []reconcile.Request {
	all := &clusterv1.LoadBalancerList{}
	if err := r.client.List(ctx, all, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		r.log.Error(err, "listing load balancers of a target group", "namespace", o.GetNamespace())
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		if selects(&all.Items[i], o.GetLabels()) {
			out = append(out, r.ofLoadBalancer(ctx, &all.Items[i])...)
		}
	}
	return out
}

// ofTenant are all objects of its namespace: its quota and targetCIDRs are for all of them.
func (r *reconciler) ofTenant(ctx context.Context, o client.Object) []reconcile.Request {
	t, ok := o.(*v1alpha1.Tenant)
	if !ok {
		return nil
	}
	return r.where(ctx, t.NamespaceName(), func(client.Object) bool { return true })
}

// ofCluster are all objects of its namespace: there are few, and Clusters change rarely.
func (r *reconciler) ofCluster(ctx context.Context, o client.Object) []reconcile.Request {
	return r.where(ctx, o.GetNamespace(), func(client.Object) bool { return true })
}

// where lists the namespace's objects of the provider's kind that f is true of.
func (r *reconciler) where(ctx context.Context, namespace string, f func(client.Object) bool) []reconcile.Request {
	objects, err := r.objects(ctx, client.InNamespace(namespace))
	if err != nil {
		r.log.Error(err, "listing objects", "namespace", namespace)
		return nil
	}
	var out []reconcile.Request
	for _, o := range objects {
		if f(o) {
			out = append(out, request(namespace, o.GetName()))
		}
	}
	return out
}

// objects lists those of the provider's kind.
func (r *reconciler) objects(ctx context.Context, opts ...client.ListOption) ([]Object, error) {
	list, ok := r.list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list", r.list)
	}
	if err := r.client.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing objects of kind %s: %w", r.kind.Kind, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, fmt.Errorf("reading the list of kind %s: %w", r.kind.Kind, err)
	}
	var out []Object
	for _, i := range items {
		if o, ok := i.(Object); ok {
			out = append(out, o)
		}
	}
	return out, nil
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// ownedBy says whether a LoadBalancer had an object made, by a class.
func ownedBy(o client.Object, loadBalancer string) bool {
	c := metav1.GetControllerOf(o)
	if c == nil || c.Kind != "LoadBalancer" || c.Name != loadBalancer {
		return false
	}
	gv, err := schema.ParseGroupVersion(c.APIVersion)
	return err == nil && gv.Group == clusterv1.GroupVersion.Group
}
