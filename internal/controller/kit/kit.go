package kit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// FieldManager is under which the manager writes.
const FieldManager = "fairlead-manager"

// SilentRelease is an AddressPool's onSilentProxy that takes a silent proxy for gone.
const SilentRelease v1alpha1.OnSilentProxy = "Release"

// TenantByNamespace is the index of Tenants by the namespace that they name.
const TenantByNamespace = "namespace"

// NamespaceKind is of namespaces, of which only metadata is read.
var NamespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// PatchStatus writes what differs between two states of an object's status. An
// object that is gone is no error. It returns whether it wrote.
func PatchStatus(ctx context.Context, c client.Client, old, next client.Object) (bool, error) {
	return patchStatus(ctx, c, old, next, client.MergeFrom(old))
}

// PatchStatusAsRead is PatchStatus where the object is still what old says: else a part of this status
// would stand beside a part of another, or on an object that was born under the same name since.
func PatchStatusAsRead(ctx context.Context, c client.Client, old, next client.Object) (bool, error) {
	return patchStatus(ctx, c, old, next, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}))
}

func patchStatus(ctx context.Context, c client.Client, old, next client.Object, patch client.Patch) (bool, error) {
	if equality.Semantic.DeepEqual(old, next) {
		return false, nil
	}
	err := c.Status().Patch(ctx, next, patch, client.FieldOwner(FieldManager))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing status: %w", err)
	}
	return true, nil
}

// TenantOf returns the Tenant that a namespace belongs to, nil if it belongs to
// none. Of several that name it the oldest has it.
func TenantOf(ctx context.Context, c client.Reader, namespace string) (*v1alpha1.Tenant, error) {
	list := &v1alpha1.TenantList{}
	if err := c.List(ctx, list, client.MatchingFields{TenantByNamespace: namespace}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing tenants of namespace %s: %w", namespace, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(list.Items, func(a, b v1alpha1.Tenant) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return oldest.DeepCopy(), nil
}

// Handler turns two functions into an informer's handler.
func Handler[T client.Object](set, forget func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if o, ok := obj.(T); ok {
				set(o)
			}
		},
		UpdateFunc: func(_, obj any) {
			if o, ok := obj.(T); ok {
				set(o)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(T); ok {
				forget(o)
			}
		},
	}
}

// Versions remembers at which resource version an object's present content was
// first seen, so that status writes move nothing. It is safe for concurrent use.
type Versions struct {
	mu   sync.Mutex
	seen map[types.UID]sighting
}

type sighting struct {
	content string
	version proof.Version
}

// NewVersions has seen nothing.
func NewVersions() *Versions { return &Versions{seen: map[types.UID]sighting{}} }

// Of returns the version of o's present content: generation, labels and whether it is being deleted.
func (v *Versions) Of(o client.Object) proof.Version {
	version, err := proof.ParseVersion(o.GetResourceVersion())
	if err != nil {
		return 0
	}
	content := fmt.Sprint(o.GetGeneration(), o.GetDeletionTimestamp() != nil, o.GetLabels())
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.seen[o.GetUID()]
	switch {
	case ok && s.content == content:
		return s.version
	case ok && s.version > version:
		return version // an older state than the one seen last
	}
	v.seen[o.GetUID()] = sighting{content, version}
	return version
}

// Forget drops an object that is gone.
func (v *Versions) Forget(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen, o.GetUID())
}

// Queue is a controller's queue, for those who wake it beside its watches. What
// is added before the controller runs is dropped: it looks at everything at its start.
type Queue struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Start is a source of the controller.
func (q *Queue) Start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = queue
	return nil
}

// Add wakes a key.
func (q *Queue) Add(namespace, name string) { q.AddAfter(namespace, name, 0) }

// AddAfter wakes a key after a while; of several times the earliest counts.
func (q *Queue) AddAfter(namespace, name string, after time.Duration) {
	q.mu.Lock()
	queue := q.queue
	q.mu.Unlock()
	if queue == nil {
		return
	}
	key := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	if after <= 0 {
		queue.Add(key)
		return
	}
	queue.AddAfter(key, after)
}
