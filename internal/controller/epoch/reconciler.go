package epoch

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// Wait is how long a Tenant's agent is waited for after the hub changed.
	Wait = 24 * time.Hour
	// silence is how long an agent may go without a renewal: it renews every minute.
	silence = 150 * time.Second
	// lookAgain is how often a Tenant that is waited for is looked at, whatever clocks do.
	lookAgain = time.Hour
	// annotationHeldAgain on a Tenant is the epoch in which its agent was given Wait once more, for it was at work.
	annotationHeldAgain = "fairlead.dev/held-again"
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes.
	Client client.Client
	Fleet  *fleet.Fleet
	// Events tells people about Tenants.
	Events Recorder
	Now    func() time.Time
}

// Recorder writes one event about a Tenant.
type Recorder interface {
	Event(t *v1alpha1.Tenant, kind, reason, message string)
}

// Reconciler reconciles the epochs of Tenants.
type Reconciler struct {
	Options
	Queue *kit.Queue

	mu     sync.Mutex
	agents map[types.UID]sighting // by the Tenant's UID
	waits  waits
}

// sighting is when a renewal of an agent's Lease was first seen; renewed: there was another before it.
type sighting struct {
	renewal string
	seen    time.Time
	renewed bool
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, Queue: &kit.Queue{}, agents: map[types.UID]sighting{}, waits: newWaits()}
	o.Fleet.Subscribe(func(fleet.Change) { r.fleetChanged(context.Background()) })
	return r
}

// fleetChanged looks at all Tenants that are behind the hub's epoch.
func (r *Reconciler) fleetChanged(ctx context.Context) {
	changed := false
	for _, p := range r.Fleet.All() {
		changed = changed || p.HubChanged != "" && !p.Out
	}
	if !changed {
		return
	}
	for _, name := range r.Behind(ctx) {
		r.Queue.Add("", name)
	}
}

// Behind names the Tenants that are to be told the present epoch.
func (r *Reconciler) Behind(ctx context.Context) []string {
	tenants, _, present, err := r.present(ctx)
	if err != nil {
		r.Logger.Error("tenants can't be listed", "err", err)
		return nil
	}
	var out []string
	for i := range tenants {
		if tenants[i].Status.HubEpoch < present {
			out = append(out, tenants[i].Name)
		}
	}
	return out
}

func (r *Reconciler) present(ctx context.Context) ([]v1alpha1.Tenant, []*proof.Proxy, int64, error) {
	list := &v1alpha1.TenantList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, 0, fmt.Errorf("listing tenants: %w", err)
	}
	var told []int64
	for i := range list.Items {
		told = append(told, list.Items[i].Status.HubEpoch)
	}
	proxies := r.Fleet.All()
	r.waits.see(proxies)
	return list.Items, proxies, proof.PresentEpoch(told, proxies), nil
}

// Reconcile brings one Tenant's epochs as far as they can come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t := &v1alpha1.Tenant{}
	if err := r.Client.Get(ctx, req.NamespacedName, t); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	_, proxies, present, err := r.present(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	agent, err := r.agent(ctx, t)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := t.DeepCopy()
	next.Status.HubEpoch = present
	next.Status.AgentEpoch = proof.AgentEpoch(t.Status.AgentEpoch, present, agent.epoch)
	again := time.Duration(0)
	if waits := next.Status.AgentEpoch < present; waits && t.DeletionTimestamp == nil {
		if again, err = r.wait(ctx, t, agent, next, proxies); err != nil {
			return reconcile.Result{}, err
		}
	} else {
		r.waits.end(t.UID)
		if t.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
			if err := r.hold(ctx, t, "", ""); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	// Only what differs of these two is written: the rest of the status is another's.
	old := next.DeepCopy()
	old.Status.HubEpoch, old.Status.AgentEpoch = t.Status.HubEpoch, t.Status.AgentEpoch
	wrote, err := kit.PatchStatus(ctx, r.Client, old, next)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("epochs of Tenant %s: %w", t.Name, err)
	}
	if wrote {
		r.Logger.Info("epochs of a tenant", "tenant", t.Name, "hub", present, "agent", next.Status.AgentEpoch)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// wait gives the agent its time, and sets next's epoch when that is over.
func (r *Reconciler) wait(ctx context.Context, t *v1alpha1.Tenant, a agent, next *v1alpha1.Tenant, proxies []*proof.Proxy) (again time.Duration, err error) {
	until, parseErr := time.Parse(time.RFC3339, t.Annotations[v1alpha1.AnnotationHeldUntil])
	whole, epoch := r.Now().Add(Wait).UTC().Format(time.RFC3339), strconv.FormatInt(next.Status.HubEpoch, 10)
	raised := next.Status.HubEpoch > t.Status.HubEpoch
	goesOn := r.waits.watch(t, a, raised, proxies)
	switch left := until.Sub(r.Now()); {
	case parseErr != nil, raised && left < Wait-time.Minute && !goesOn: // what is there is of an earlier epoch
		return lookAgain, r.hold(ctx, t, whole, "")
	case left > 0:
		return min(lookAgain, max(left, time.Second)), nil
	case !a.silent && !a.renewed:
		return silence - a.since, nil // this manager hasn't looked for long enough
	case !a.silent && a.knows && t.Annotations[annotationHeldAgain] != epoch:
		return lookAgain, r.hold(ctx, t, whole, epoch) // it is at work
	}
	next.Status.AgentEpoch = next.Status.HubEpoch
	r.Logger.Warn("a tenant's agent is waited for no longer", "tenant", t.Name, "epoch", next.Status.HubEpoch)
	if r.Events != nil {
		r.Events.Event(t, "Warning", v1alpha1.ReasonAgentSilent,
			"Its agent has not written its objects again since the hub changed. It is waited for no longer: from now on is served what the hub holds. See to the agent.")
	}
	return 0, nil
}

// hold writes until when the agent is waited for, and in which epoch it was given more time; empty: neither.
func (r *Reconciler) hold(ctx context.Context, t *v1alpha1.Tenant, until, again string) error {
	next := t.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	for name, value := range map[string]string{v1alpha1.AnnotationHeldUntil: until, annotationHeldAgain: again} {
		if next.Annotations[name] = value; value == "" {
			delete(next.Annotations, name)
		}
	}
	if err := r.Client.Patch(ctx, next, client.MergeFrom(t), client.FieldOwner(kit.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating Tenant %s: %w", t.Name, err)
	}
	return nil
}

// agent is what a Tenant's agent says by its Lease.
type agent struct {
	epoch int64
	// knows says that it notes epochs at all.
	knows bool
	// silent: it never came, or renews no longer; renewed: it was seen to renew. since is for how long its last renewal is known here.
	silent, renewed bool
	since           time.Duration
	// renewal tells one renewal from another; empty: there is none.
	renewal string
}

func (r *Reconciler) agent(ctx context.Context, t *v1alpha1.Tenant) (agent, error) {
	l := &coordinationv1.Lease{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Namespace: t.NamespaceName(), Name: v1alpha1.AgentLease}, l); {
	case apierrors.IsNotFound(err):
		return agent{silent: true}, nil
	case err != nil:
		return agent{}, fmt.Errorf("reading the agent's lease of Tenant %s: %w", t.Name, err)
	}
	if uid := l.Annotations[v1alpha1.AnnotationClusterUID]; t.Status.ClusterUID != "" && uid != t.Status.ClusterUID {
		return agent{silent: true}, nil // another cluster's
	}
	a := agent{}
	if s := l.Annotations[v1alpha1.AnnotationEpoch]; s != "" {
		epoch, err := strconv.ParseInt(s, 10, 64)
		if err == nil {
			a.epoch, a.knows = epoch, true
		} else {
			r.Logger.Warn("an agent's lease names no readable epoch", "tenant", t.Name, "err", err)
		}
	}
	renewal := ""
	if l.Spec.RenewTime != nil {
		renewal = l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.agents[t.UID]
	if !ok || s.renewal != renewal {
		s = sighting{renewal, r.Now(), ok}
		r.agents[t.UID] = s
	}
	a.since, a.renewed, a.renewal = r.Now().Sub(s.seen), s.renewed, renewal
	a.silent = a.since >= silence
	return a, nil
}

// Forget drops what is remembered of a Tenant that is gone.
func (r *Reconciler) Forget(t *v1alpha1.Tenant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, t.UID)
	r.waits.end(t.UID)
}
