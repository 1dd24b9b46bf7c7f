package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Pause is the least time between what proxies say and the round that it makes.
	Pause = 500 * time.Millisecond
	// lookAgain is when what isn't watched, or was refused, is looked at again.
	lookAgain = 15 * time.Second
)

// Clusters reads Clusters from the API server itself.
type Clusters interface {
	// Served is a kind of Cluster API in the version that the hub serves; empty: it doesn't.
	Served(kind string) (schema.GroupVersionKind, error)
	Look(ctx context.Context, key types.NamespacedName) (endpoint.Cluster, error)
}

// Recorder writes one event about a LoadBalancer.
type Recorder interface {
	Event(lb *clusterv1.LoadBalancer, kind, reason, message string)
}

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads our kinds from the cache, and writes; Cache reads Machines and Nodes from it; Reader reads from the API server itself.
	Client        client.Client
	Cache, Reader client.Reader
	Clusters      Clusters
	// Elsewhere speaks for the proxies where the hub is another cluster than the Machines'; then there is no Fleet, and nobody is Asked.
	Elsewhere Elsewhere
	Fleet     *fleet.Fleet
	// Asked are the proxies that may have connections to a TargetGroup's targets, sorted by name.
	Asked func(context.Context, *v1alpha1.TargetGroup) ([]*proof.Proxy, error)
	// Providers' objects are the witness where one serves; nil: none does.
	Providers Providers
	// Versions of TargetGroups.
	Versions *kit.Versions
	Events   Recorder
	Now      func() time.Time
}

// Reconciler reconciles the members of one LoadBalancer at a time.
type Reconciler struct {
	Options
	Queue *kit.Queue

	mu   sync.Mutex
	seen map[rules.Kind]sight
	// known are the LoadBalancers whose members are followed.
	known map[types.NamespacedName]known
	// leaving is since when a Machine, by its UID, is to leave a LoadBalancer.
	leaving map[leaver]time.Time
	pins    map[pin]pinned
	// missed is when a LoadBalancer was first missed of which something is left.
	missed map[types.NamespacedName]time.Time
	// pools by who of them lives, as it was last seen.
	pools  map[string]string
	wanted chan struct{}
}

// known is what is remembered of a LoadBalancer.
type known struct {
	// pool of its proxies.
	pool string
	// waits for a word of theirs.
	waits bool
}

type leaver struct {
	of  types.NamespacedName
	uid string
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	r := &Reconciler{
		Options: o, Queue: &kit.Queue{}, known: map[types.NamespacedName]known{}, leaving: map[leaver]time.Time{}, pins: map[pin]pinned{}, pools: map[string]string{}, missed: map[types.NamespacedName]time.Time{},
		seen: map[rules.Kind]sight{}, wanted: make(chan struct{}, 1),
	}
	if o.Fleet != nil {
		o.Fleet.Subscribe(r.fleetChanged)
	}
	return r
}

// Reconcile brings the members of one LoadBalancer as far as they can come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.blind(rules.Machines) {
		return reconcile.Result{}, nil // all are woken in a moment
	}
	l := &clusterv1.LoadBalancer{}
	switch err := r.Client.Get(ctx, req.NamespacedName, l); {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, r.vanished(ctx, req.NamespacedName)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading LoadBalancer %s: %w", req, err)
	}
	class, kind, err := r.kindOf(ctx, l)
	if err != nil {
		return reconcile.Result{}, err
	}
	if build.KindOf(l) == rules.Nodes && r.Elsewhere == nil && r.blind(rules.Nodes) {
		return reconcile.Result{}, nil
	}
	if l.DeletionTimestamp != nil || kind == "" {
		if !controllerutil.ContainsFinalizer(l, clusterv1.MembersFinalizer) {
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return r.letGo(ctx, l, class)
	}
	if (class != nil || l.Spec.InfrastructureRef != nil || r.Elsewhere != nil) && !r.watched(kind).Empty() { // else nothing of it is written, and there is nothing to take away before it goes
		if err := kit.Guard(ctx, r.Client, l, clusterv1.MembersFinalizer); err != nil {
			return reconcile.Result{}, err
		}
	}
	v, err := r.view(ctx, l, class, kind, source{r.Cache, r.Client})
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := machines.Make(v.Facts)
	others, err := r.traces(ctx, req.NamespacedName, kind)
	if err != nil {
		return reconcile.Result{}, err
	}
	var failed error
	if plan.Changes(v.Facts) || v.unlabelled() || len(others) > 0 {
		if v, err = r.view(ctx, l, class, kind, source{r.Reader, r.Reader}); err != nil {
			return reconcile.Result{}, err
		}
		plan = machines.Make(v.Facts)
		var p *problem
		if p, failed = r.refusal(kind, errors.Join(r.write(ctx, v, &plan), r.shed(ctx, v, others))); p != nil {
			v.problem = p
		}
	}
	again := r.remember(req.NamespacedName, v, &plan)
	if len(others) > 0 && (again == 0 || again > lookAgain) {
		again = lookAgain
	}
	return reconcile.Result{RequeueAfter: again}, errors.Join(failed, r.say(ctx, v, &plan))
}

// refusal tells what write failed at apart: what is to be said, and tried again later, and what passes by itself, as where an
// object was written meanwhile.
func (r *Reconciler) refusal(kind rules.Kind, err error) (*problem, error) {
	if err == nil {
		return nil, nil
	}
	var out *problem
	var passing []error
	for all := []error{err}; len(all) > 0; all = all[1:] {
		e := all[0]
		joined, several := e.(interface{ Unwrap() []error })
		switch {
		case several:
			all = append(all, joined.Unwrap()...)
		case apierrors.IsConflict(e), errors.Is(e, context.Canceled):
			passing = append(passing, e)
		case apierrors.IsForbidden(e) && (out == nil || out.reason != clusterv1.ReasonForbidden):
			out = &problem{clusterv1.ReasonForbidden, fmt.Sprintf("%s may not do what its %ss need: apply %s, or see what forbids it (%v)", r.who().Name, kind, r.rights(kind), e)}
		case out == nil:
			out = &problem{clusterv1.ReasonWriteFailed, fmt.Sprintf("it is tried again, while all else goes on: %v", e)}
		}
	}
	return out, errors.Join(passing...)
}

// who follows the Machines.
func (r *Reconciler) who() clusters.Who {
	if r.Elsewhere != nil {
		return clusters.Agent()
	}
	return clusters.Manager()
}

// kindOf is the kind of a LoadBalancer's targets that are to be followed; "": none are. class is its own; nil: there is none.
func (r *Reconciler) kindOf(ctx context.Context, l *clusterv1.LoadBalancer) (class *v1alpha1.LoadBalancerClass, kind rules.Kind, err error) {
	if r.Elsewhere != nil { // classes, Tenants and Nodes are the hub's
		if build.OfMachines(l) {
			kind = rules.Machines
		}
		return nil, kind, nil
	}
	tenant, err := kit.TenantOf(ctx, r.Client, l.Namespace)
	if err != nil {
		return nil, "", err
	}
	if l.Spec.ClassName != "" {
		c := &v1alpha1.LoadBalancerClass{}
		switch err := r.Client.Get(ctx, types.NamespacedName{Name: l.Spec.ClassName}, c); {
		case err == nil:
			class = c
		case client.IgnoreNotFound(err) != nil:
			return nil, "", fmt.Errorf("reading class %s: %w", l.Spec.ClassName, err)
		}
	}
	kind, _ = build.Resolved(l, class, tenant)
	if tenant == nil && unknownKind(l) != nil && controllerutil.ContainsFinalizer(l, clusterv1.MembersFinalizer) {
		kind, err = r.kindBefore(ctx, l)
	}
	return class, kind, err
}

// kindBefore is that from which a LoadBalancer's TargetGroups were made: what there is stays until somebody mends a kind that there is not.
func (r *Reconciler) kindBefore(ctx context.Context, l *clusterv1.LoadBalancer) (kind rules.Kind, err error) {
	groups, _, err := r.generated(ctx, r.Client, client.ObjectKeyFromObject(l))
	for _, g := range groups {
		kind = rules.KindOf(g.Labels[v1alpha1.LabelGeneratedFrom])
	}
	return kind, err
}

// unknownKind is what is wrong with a LoadBalancer that calls its targets by a kind that there is not; nil: nothing.
func unknownKind(l *clusterv1.LoadBalancer) error {
	if kind := build.UnknownKind(l); kind != "" {
		return fmt.Errorf("spec.targetKind: kind %q is unknown: use TargetGroup, Machine or Node", kind)
	}
	return nil
}

// remember notes what the LoadBalancer waits for, and returns when it is to be looked at again; 0: when something wakes it.
func (r *Reconciler) remember(of types.NamespacedName, v *view, plan *machines.Plan) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := known{pool: v.witness.pool()}
	again := time.Duration(0)
	within := func(d time.Duration) {
		if d > 0 && (again == 0 || d < again) {
			again = d
		}
	}
	within(v.witness.again())
	if v.problem != nil {
		within(lookAgain)
	}
	if plan.Lost {
		k.waits = true
		within(lookAgain)
	}
	for i := range plan.Members {
		m := &plan.Members[i]
		k.waits = k.waits || m.Unsettled()
		if m.Seen.Deleting || !m.Seen.Selected {
			within(v.Shared.MaxWait/2 - m.Seen.Waited)
			within(v.Shared.MaxWait - m.Seen.Waited)
			if v.Kind == rules.Machines {
				within(lookAgain) // its Cluster's control plane isn't watched
			}
		}
	}
	r.known[of] = k
	return again
}

// StandsStill says that nothing of a LoadBalancer is followed for now, so that no time counts as waited.
func (r *Reconciler) StandsStill(of types.NamespacedName) { r.forget(of) }

func (r *Reconciler) forget(of types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, of)
	for k := range r.leaving {
		if k.of == of {
			delete(r.leaving, k)
		}
	}
	for k := range r.pins {
		if k.of == of {
			delete(r.pins, k)
		}
	}
}
