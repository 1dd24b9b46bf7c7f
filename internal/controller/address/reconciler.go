package address

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache, Reader the API server itself.
	Client client.Client
	Reader client.Reader
	Keeper *ledger.Keeper
	Fleet  *fleet.Fleet
	// Wake reconciles a LoadBalancer.
	Wake func(ipam.Ref)
	// Events tells people about Addresses.
	Events Recorder
	Now    func() time.Time
}

// Recorder writes one event about an Address.
type Recorder interface {
	Event(a *v1alpha1.Address, kind, reason, message string)
}

// Reconciler reconciles Addresses.
type Reconciler struct {
	Options
	Queue *kit.Queue

	mu      sync.Mutex
	resting map[types.UID]time.Time // since when an Address is proven released
	stood   map[string]struct{}     // AddressPools that were frozen when one of their Addresses could have been freed
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, Queue: &kit.Queue{}, resting: map[types.UID]time.Time{}, stood: map[string]struct{}{}}
	o.Fleet.Subscribe(r.fleetChanged)
	return r
}

func (r *Reconciler) fleetChanged(c fleet.Change) {
	if thawed := r.thawed(); len(thawed) > 0 {
		for _, a := range r.Keeper.Unsettled() {
			if slices.Contains(thawed, a.Object.Spec.Pool) {
				r.Queue.Add("", a.Object.Name)
			}
		}
	}
	for pool := range c.Pools {
		for _, a := range r.Keeper.Releasing(pool) {
			waiting, err := r.judge(context.Background(), a)
			if err != nil || len(waiting) == 0 { // an error is told where it is tried again
				r.Queue.Add("", a.Object.Name)
			}
		}
	}
	if len(c.Pools) > 0 {
		r.Keeper.RetryUnsettled()
	}
}

// thawed returns the AddressPools that stood still and don't any more.
func (r *Reconciler) thawed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for pool := range r.stood {
		if _, frozen := r.Keeper.Frozen(pool); !frozen {
			delete(r.stood, pool)
			out = append(out, pool)
		}
	}
	return out
}

// Reconcile looks at one Address.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	a, ok := r.Keeper.Get(req.Name)
	if !ok {
		return reconcile.Result{}, nil
	}
	switch a.Object.Spec.Phase {
	case v1alpha1.AddressGranted:
		return r.missing(ctx, a.Object)
	case v1alpha1.AddressReleasing:
		return r.release(ctx, a)
	}
	return reconcile.Result{}, nil
}

// release frees the Address if all proxies have let go of it and it has rested.
func (r *Reconciler) release(ctx context.Context, a ledger.Address) (reconcile.Result, error) {
	waiting, err := r.judge(ctx, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(waiting) > 0 {
		r.forget(a.Object.UID)
		r.Logger.Debug("an address waits for proxies", "address", a.Object.Name, "proxies", proof.Names(waiting))
		return reconcile.Result{}, nil
	}
	if still, err := r.standsStill(ctx, a.Object); err != nil || still {
		return reconcile.Result{}, err
	}
	rest, err := r.rest(ctx, a.Object)
	if err != nil || rest > 0 {
		return reconcile.Result{RequeueAfter: rest}, err
	}
	if err := r.Keeper.Free(ctx, a.Object); err != nil {
		return reconcile.Result{}, err
	}
	r.forget(a.Object.UID)
	r.Logger.Info("address freed", "address", a.Object.Name, "pool", a.Object.Spec.Pool)
	return reconcile.Result{}, nil
}

// standsStill says that nothing of the Address's pool may be freed now, whatever proxies say of it. Whoever ends that wakes us.
func (r *Reconciler) standsStill(ctx context.Context, a *v1alpha1.Address) (bool, error) {
	if why, frozen := r.Keeper.Frozen(a.Spec.Pool); frozen {
		r.mu.Lock()
		r.stood[a.Spec.Pool] = struct{}{}
		r.mu.Unlock()
		// It may have thawed before that was noted.
		if _, frozen = r.Keeper.Frozen(a.Spec.Pool); frozen {
			r.Logger.Debug("an address's pool is frozen", "address", a.Name, "pool", a.Spec.Pool, "why", why.Message)
			return true, nil
		}
	}
	pool := &v1alpha1.AddressPool{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: a.Spec.Pool}, pool); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading address pool %s: %w", a.Spec.Pool, err)
	}
	return pool.Spec.Restoring, nil
}

// Forget drops what is remembered of an Address that is gone.
func (r *Reconciler) Forget(a *v1alpha1.Address) { r.forget(a.UID) }

func (r *Reconciler) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.resting, uid)
}

// rest is how long the proven Address still rests. Restarted managers count anew.
func (r *Reconciler) rest(ctx context.Context, a *v1alpha1.Address) (time.Duration, error) {
	pool := &v1alpha1.AddressPool{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: a.Spec.Pool}, pool); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading address pool %s: %w", a.Spec.Pool, err)
	}
	if pool.Spec.Quarantine == nil || pool.Spec.Quarantine.Duration == 0 {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	since, ok := r.resting[a.UID]
	if !ok {
		since = r.Now()
		r.resting[a.UID] = since
	}
	return pool.Spec.Quarantine.Duration - r.Now().Sub(since), nil
}

// judge says who still stands against the release.
func (r *Reconciler) judge(ctx context.Context, a ledger.Address) ([]proof.Waiting, error) {
	return Judge(ctx, r.Client, r.Fleet, a)
}

// Judge says which proxies still stand against the release of an Address.
func Judge(ctx context.Context, c client.Reader, f *fleet.Fleet, a ledger.Address) ([]proof.Waiting, error) {
	pool := &v1alpha1.AddressPool{}
	if err := c.Get(ctx, types.NamespacedName{Name: a.Object.Spec.Pool}, pool); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading address pool %s: %w", a.Object.Spec.Pool, err)
	}
	release := proof.Release{
		Name: a.Object.Name, UID: string(a.Object.UID), Version: a.Version,
		IgnoreSilent: pool.Spec.OnSilentProxy == kit.SilentRelease,
	}
	for _, h := range a.Object.Spec.Holders {
		if slices.Contains(release.Namespaces, h.Namespace) {
			continue
		}
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(kit.NamespaceKind)
		switch err := c.Get(ctx, types.NamespacedName{Name: h.Namespace}, namespace); {
		case err == nil && namespace.DeletionTimestamp == nil:
			release.Namespaces = append(release.Namespaces, h.Namespace)
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading namespace %s: %w", h.Namespace, err)
		}
	}
	return proof.JudgeReleased(release, f.Pool(a.Object.Spec.ProxyPool)), nil
}
