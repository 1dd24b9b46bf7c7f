package fks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/api/infrastructure"
	"fairlead.dev/fairlead/examples/fks-provider/cloud"
	"fairlead.dev/fairlead/provider/managed"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Finalizer holds an object until what was made for it is gone.
const Finalizer = "fks.fairlead.dev/outside"

// Service is what of the Foo Kubernetes Service is used.
type Service interface {
	EnsureControlPlane(ctx context.Context, id, owner string, s cloud.Spec) (cloud.ControlPlane, error)
	DeleteControlPlane(ctx context.Context, id, owner string) error
	EnsurePiece(ctx context.Context, id, owner string) (cloud.Piece, error)
	DeletePiece(ctx context.Context, id, owner string) error
}

// Options of the controllers.
type Options struct {
	Service Service
	// Timeout of each call of the service. Default: 30 s.
	Timeout time.Duration
	// Resync is how often an object is compared with what the service has. Default: 30 s.
	Resync time.Duration
}

// AddToScheme adds all kinds that the controllers read and write.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), clusterv1.AddToScheme(s), infrastructure.AddToScheme(s), controlplane.AddToScheme(s))
}

// Setup adds both controllers to a manager, whose scheme has the kinds of AddToScheme. Cluster API must be installed.
func Setup(mgr manager.Manager, o Options) error {
	o.Timeout, o.Resync = cmp.Or(o.Timeout, 30*time.Second), cmp.Or(o.Resync, 30*time.Second)
	h := hub{Options: o, client: mgr.GetClient(), live: mgr.GetAPIReader(), kinds: mgr.GetRESTMapper()}
	m, err := h.kinds.RESTMapping(managed.ClusterKind)
	if err != nil {
		return fmt.Errorf("looking for Cluster API's Clusters: %w; install Cluster API first", err)
	}
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(m.GroupVersionKind)
	return errors.Join(
		builderOf(mgr, cluster, h, &infrastructure.FKSCluster{}, &infrastructure.FKSClusterList{}).Complete(&clusters{h}),
		builderOf(mgr, cluster, h, &controlplane.FKSControlPlane{}, &controlplane.FKSControlPlaneList{}).Complete(&controlPlanes{h}),
	)
}

// hub is what both controllers reach.
type hub struct {
	Options
	client client.Client
	// live reads from the API server itself: what decides whether anything may be done outside.
	live  client.Reader
	kinds meta.RESTMapper
}

// retries of what failed: ever more slowly, up to two minutes.
func retries() controller.Options {
	return controller.Options{MaxConcurrentReconciles: 8, RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](500*time.Millisecond, 2*time.Minute)}
}

// ofCluster are the objects that a Cluster owns, of one kind.
func (h hub) ofCluster(list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, c client.Object) []reconcile.Request {
		all, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil
		}
		if err := h.client.List(ctx, all, client.InNamespace(c.GetNamespace())); err != nil {
			return nil // the cache has ended; else the next resync finds it
		}
		var out []reconcile.Request
		if err := meta.EachListItem(all, func(x runtime.Object) error {
			if o, ok := x.(client.Object); ok && managed.IsOwnedBy(o, c.GetName()) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		}); err != nil {
			return nil
		}
		return out
	}
}

// bounded bounds a call of the service.
func bounded[T any](ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// patch changes an object's metadata and spec, if that changes anything, and if it is still what was read. What its status has, that isn't
// written yet, it keeps.
func patch[T client.Object](ctx context.Context, c client.Client, o T, change func(T)) error {
	next, ok := o.DeepCopyObject().(T)
	before, ok2 := o.DeepCopyObject().(T)
	if !ok || !ok2 {
		return fmt.Errorf("the deep copy of %T is a %T: generate its deep copies anew", o, o.DeepCopyObject())
	}
	change(next)
	if equality.Semantic.DeepEqual(before, next) {
		return nil
	}
	if err := c.Patch(ctx, next, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing it: %w", err)
	}
	change(o)
	o.SetResourceVersion(next.GetResourceVersion())
	o.SetGeneration(next.GetGeneration())
	return nil
}

// writeStatus writes what differs from how the object was.
func writeStatus(ctx context.Context, c client.Client, before, o client.Object) error {
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, o, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return nil
}

// letGo takes the finalizer off.
func letGo[T client.Object](ctx context.Context, c client.Client, o T) error {
	return client.IgnoreNotFound(patch(ctx, c, o, func(o T) { controllerutil.RemoveFinalizer(o, Finalizer) }))
}

// set sets a condition.
func set(all *[]metav1.Condition, generation int64, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(all, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation})
}

// builderOf is what both controllers share: an object is looked at when it changes, its ClusterEndpoint or the Cluster that owns it.
func builderOf(mgr manager.Manager, cluster client.Object, h hub, o client.Object, list client.ObjectList) *builder.Builder {
	return builder.ControllerManagedBy(mgr).For(o).Owns(&clusterv1.ClusterEndpoint{}).
		Watches(cluster, handler.EnqueueRequestsFromMapFunc(h.ofCluster(list))).WithOptions(retries())
}
