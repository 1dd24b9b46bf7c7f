package loadbalancer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/providerkind"
	"fairlead.dev/fairlead/internal/controller/service"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	"fairlead.dev/fairlead/internal/yield"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// moment is how long "waiting for proxies" is left unwritten.
	moment = time.Second
	// anew is how long it is left as it was written, whoever gets through meanwhile.
	anew = 10 * time.Second
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	Client client.Client
	Keeper *ledger.Keeper
	Fleet  *fleet.Fleet
	// Services of the hub serve LoadBalancers whose class says so; nil: there is no such class.
	Services *service.Services
	// Providers' kinds serve LoadBalancers that refer to them, or whose class does; nil: there are none.
	Providers *providerkind.Kinds
	// Versions of classes, Tenants and TargetGroups.
	Versions *kit.Versions
	Metrics  *Metrics
	// Events tells people about transitions of LoadBalancers that no agent made.
	Events Recorder
	// Addresses wakes the controller of Addresses.
	Addresses *kit.Queue
	Now       func() time.Time
}

// Recorder writes one event about a LoadBalancer.
type Recorder interface {
	Event(lb *clusterv1.LoadBalancer, kind, reason, message string)
}

// Reconciler reconciles one LoadBalancer at a time, many at once.
type Reconciler struct {
	Options
	Queue   *kit.Queue
	pending *pending
	hosts   hosts
	// joining are those that stay Programmed, and await a live proxy whose host they don't show.
	joining *pending
	// way is the grants': in a burst, statuses of what is granted are written behind them.
	way *yield.Way[ipam.Ref]
	// turns are taken by changes of a namespace's LoadBalancers.
	turns *kit.Turns[ipam.Ref]
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	if o.Services == nil {
		o.Services = service.New(service.Options{})
	}
	r := &Reconciler{Options: o, Queue: &kit.Queue{}, pending: newPending(), joining: newPending()}
	r.way = yield.New(
		func(ref ipam.Ref) string { return ref.Namespace },
		r.Wake)
	r.turns = kit.NewTurns(r.Wake)
	o.Fleet.Subscribe(r.fleetChanged)
	return r
}

// Wake reconciles a LoadBalancer soon.
func (r *Reconciler) Wake(ref ipam.Ref) { r.Queue.Add(ref.Namespace, ref.Name) }

func (r *Reconciler) fleetChanged(c fleet.Change) {
	if len(c.Pools) > 0 {
		r.lookAtHosts()
	}
	for pool := range c.Pools {
		for _, waits := range []*pending{r.pending, r.joining} {
			for _, ref := range waits.differing(pool, r.Fleet.Pool(pool)) {
				r.Wake(ref)
			}
		}
	}
	for key := range c.LoadBalancers {
		r.Wake(ipam.Ref{Namespace: key.Namespace, Name: key.Name})
	}
}

// Reconcile brings one LoadBalancer as far as it can come.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ref := ipam.Ref{Namespace: req.Namespace, Name: req.Name}
	l := &clusterv1.LoadBalancer{}
	if err := r.Client.Get(ctx, req.NamespacedName, l); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("reading LoadBalancer %s: %w", ref, err)
		}
		return reconcile.Result{}, r.vanished(ctx, ref)
	}
	if l.DeletionTimestamp != nil {
		r.turns.Forget(ref.Namespace, ref)
		if still, err := r.standsStill(ctx, l); err != nil || still {
			return reconcile.Result{RequeueAfter: moment}, err
		}
		return r.release(ctx, l)
	}
	over := r.turns.Take(ref.Namespace, ref, contentOf(l))
	if over == nil {
		return reconcile.Result{RequeueAfter: kit.TurnsAgain}, nil // or woken before
	}
	defer over()
	in, err := r.inputs(ctx, l)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.prepare(ctx, l, in); err != nil {
		return reconcile.Result{}, err
	}
	f := facts{lb: l, problems: in.problems(l)}
	if err := r.targets(ctx, l, in, &f); err != nil {
		return reconcile.Result{}, err
	}
	if on, wait, err := r.onProvider(ctx, l, in, &f); on || err != nil {
		return wait, err
	}
	if on, wait, err := r.onService(ctx, l, in, &f); on || err != nil {
		return wait, err
	}
	if on, wait, err := r.onOthers(ctx, l, in, &f); on || err != nil {
		return wait, err
	}
	if err := r.grant(ctx, l, in, &f); err != nil {
		return reconcile.Result{}, err
	}
	r.judge(l, in, &f)
	again := time.Duration(0)
	if waits(f) {
		rest, told := r.pending.rest(ref, r.Now())
		switch {
		case rest > 0 && !told:
			return reconcile.Result{RequeueAfter: rest}, nil
		case rest > 0:
			again, f.said = rest, saidWaiting(l)
		default:
			again = anew
		}
	}
	return reconcile.Result{RequeueAfter: again}, r.write(ctx, l, f)
}

// vanished is for a LoadBalancer that is gone: what it held is looked at by the controller of Addresses.
func (r *Reconciler) vanished(ctx context.Context, ref ipam.Ref) error {
	r.forget(ref)
	if err := r.orphaned(ctx, ref); err != nil {
		return err
	}
	r.Keeper.Leave(ref)
	held, err := r.Keeper.Confirmed(ctx, ref)
	for _, name := range held {
		r.Addresses.Add("", name)
	}
	return err
}

// prepare writes what the spec leaves to us, and the finalizer, before anything is granted.
func (r *Reconciler) prepare(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs) error {
	old := l.DeepCopy()
	if l.Spec.ClassName == "" && l.Spec.InfrastructureRef == nil && in.class != nil {
		l.Spec.ClassName = in.class.Name
	}
	controllerutil.AddFinalizer(l, clusterv1.Finalizer)
	if l.Spec.ClassName == old.Spec.ClassName && len(l.Finalizers) == len(old.Finalizers) {
		return nil
	}
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, l, patch, client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("preparing LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	r.turns.Followed(ipam.Ref{Namespace: l.Namespace, Name: l.Name}, contentOf(l))
	return nil
}

// grant asks the ledger. What is not accepted gets nothing new, and keeps what it has.
func (r *Reconciler) grant(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs, f *facts) error {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	if _, refused := refusedAll(f.problems, f.ports()); refused {
		r.Keeper.Leave(ref)
		for _, e := range r.Keeper.HeldBy(ref) {
			if a, ok := r.Keeper.Get(e.Name); ok && e.Phase == ipam.Granted {
				f.grant.Held = append(f.grant.Held, e)
				f.grant.Version = max(f.grant.Version, a.Version)
			}
		}
		return nil
	}
	began := r.Now()
	grant, err := r.Keeper.Grant(ctx, in.needs(l, r.Services.Count(l.Namespace)))
	if err != nil {
		r.Metrics.failed("Error")
		return err
	}
	f.grant = grant
	for _, e := range grant.Held {
		if a, ok := r.Keeper.Get(e.Name); ok && ledger.IsHeld(a.Object) {
			r.Addresses.Add("", e.Name) // it was kept for this one, and need be no longer
		}
	}
	switch {
	case grant.Fresh:
		r.way.Urgent(ref)
		r.Metrics.granted(r.Now().Sub(began))
		r.Logger.Info("address granted", "loadbalancer", ref.String(), "addresses", grant.Addresses())
	case len(grant.Held) == 0:
		r.Metrics.failed(grant.Reason)
	}
	return r.note(ctx, l, grant)
}

// note writes what was granted to the spec of a LoadBalancer that no agent made, where that names nothing but what it
// was granted: it travels with the LoadBalancer, so that another hub can grant the same.
func (r *Reconciler) note(ctx context.Context, l *clusterv1.LoadBalancer, grant ledger.Grant) error {
	granted := slices.DeleteFunc(grant.Addresses(), func(a string) bool { return a == ipam.HostsIPv4 || a == ipam.HostsIPv6 }) // nobody can ask for those
	foreign := func(a string) bool { return !slices.Contains(granted, a) }
	if l.Annotations[v1alpha1.AnnotationOrigin] != "" || len(granted) <= len(l.Spec.Addresses) || slices.ContainsFunc(l.Spec.Addresses, foreign) {
		return nil
	}
	old := l.DeepCopy()
	l.Spec.Addresses = granted
	if err := r.Client.Patch(ctx, l, client.MergeFrom(old), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("noting the addresses of LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	r.turns.Followed(ipam.Ref{Namespace: l.Namespace, Name: l.Name}, contentOf(l))
	return nil
}

// judge asks the proxies.
func (r *Reconciler) judge(l *clusterv1.LoadBalancer, in *inputs, f *facts) {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	if _, refused := refusedAll(f.problems, f.ports()); refused || len(f.grant.Held) == 0 {
		r.unasked(ref)
		return
	}
	f.pool = f.grant.Held[0].ProxyPool
	if kept(l, f.grant) && r.keep(l, f) {
		return
	}
	r.joining.forget(ref)
	need := proof.Vector{LoadBalancers: r.Versions.Of(l), Addresses: f.grant.Version, TargetGroups: in.targetGroups}
	if in.class != nil {
		need.Classes = r.Versions.Of(in.class)
	}
	if in.tenant != nil {
		need.Tenants = r.Versions.Of(in.tenant)
	}
	q := r.pending.ask(ref, question{l.UID, l.Generation, strings.Join(f.grant.Addresses(), ","), f.pool, need, r.Now()})
	proxies := r.Fleet.Pool(f.pool)
	f.programmed = proof.JudgeProgrammed(ref.Namespace, ref.Name, q.need, proxies)
	f.hosts, _ = hostAddresses(l, f.grant.Held, q.need, proxies)
	r.pending.answered(ref, f.programmed)
	f.setAside(q.need, proxies)
}

// write writes the status if it differs; in a burst of grants, a while later. What is not granted is told at once:
// somebody has to do something about it.
func (r *Reconciler) write(ctx context.Context, l *clusterv1.LoadBalancer, f facts) error {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	next := l.DeepCopy()
	next.Status = describe(f)
	if len(f.grant.Held) > 0 && !equality.Semantic.DeepEqual(l.Status, next.Status) && r.way.Yields(ref) {
		return nil // it wakes us
	}
	wrote, err := kit.PatchStatusAsRead(ctx, r.Client, l, next)
	if err != nil {
		return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	before, after := readyReason(&l.Status), readyReason(&next.Status)
	r.Metrics.state(ref, after)
	if !f.kept && meta.IsStatusConditionTrue(next.Status.Conditions, clusterv1.ConditionProgrammed) {
		r.pending.forget(ref)
		if wrote && before != after {
			r.Metrics.programmed(r.Now().Sub(l.CreationTimestamp.Time))
		}
	}
	if waits(f) && f.said == "" {
		r.pending.told(ref, r.Now())
	}
	if wrote && before != after {
		r.tell(next, after)
	}
	return nil
}

func readyReason(s *clusterv1.LoadBalancerStatus) string {
	if c := meta.FindStatusCondition(s.Conditions, clusterv1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// tell makes an event of a transition, for LoadBalancers whose agent doesn't.
func (r *Reconciler) tell(l *clusterv1.LoadBalancer, reason string) {
	if l.Annotations[v1alpha1.AnnotationOrigin] != "" || r.Events == nil {
		return
	}
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionReady)
	kind, message := "Warning", c.Message
	if c.Status == metav1.ConditionTrue {
		kind, message = "Normal", fmt.Sprintf("Served on %s.", served(l))
		if len(l.Status.Addresses) == 0 {
			message = "Somebody else manages the load balancer."
		}
	}
	r.Events.Event(l, kind, reason, message)
}

func served(l *clusterv1.LoadBalancer) string {
	var out []string
	for _, a := range l.Status.Addresses {
		out = append(out, a.Value)
	}
	return strings.Join(out, ", ")
}

// parseAddresses reads wanted addresses; what is none is left out, the schema refuses it.
func parseAddresses(wanted []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range wanted {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}
