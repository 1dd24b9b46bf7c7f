package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/yield"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// attempt bounds one look at one Service, so that no worker waits for long.
	attempt = 10 * time.Second
	// hubAttempt bounds what of it a hub may take that doesn't answer: the rest is for telling the user.
	hubAttempt = 7 * time.Second
	// refusedRetry is between two tries of a write that the hub doesn't allow.
	refusedRetry = 30 * time.Second
	// answeredRetry is between two tries of a write that the hub answers with another error, once the user is told.
	answeredRetry = 5 * time.Second
	// tellAfter is how long a Service waits, or a write to the hub fails, before its user is told.
	tellAfter = 15 * time.Second
	// goneCheck is between two looks at a LoadBalancer that should go; its deletion wakes us before.
	goneCheck = 5 * time.Second
)

// services keeps the LoadBalancers of the tenant's Services, and the Services' status. A key is
// worked on by one goroutine at a time.
type services struct {
	tenant, hub         client.Client // read from the caches; what they return is never changed
	tenantLive, hubLive client.Reader
	namespace           string
	filter              service.Filter
	defaults            *defaults
	events              *recorder
	clusterUID          string
	toldHeld            sync.Once
	log                 *slog.Logger
	metrics             *metrics

	services      *memory[struct{}]
	loadBalancers *memory[service.Wanted]
	waiting       *since // for an address
	failing       *since // to write to the hub
	refused       *since // to write there, by a hub that answers
	gone          *observed[types.NamespacedName]
	propagation   *propagation
	backends      *backends
	// way is the LoadBalancers': in a burst, what is written to Services comes behind them.
	way *yield.Way[types.NamespacedName]
}

// Reconcile does one round for one Service, which may be gone.
func (r *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	l, err := r.loadBalancer(ctx, service.Name(req.NamespacedName), r.hub)
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &v1.Service{}
	err = r.tenant.Get(ctx, req.NamespacedName, s)
	if apierrors.IsNotFound(err) {
		r.services.forget(req.NamespacedName)
		r.forget(req.NamespacedName)
		return r.orphan(ctx, req.NamespacedName, l)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Service: %w", err)
	}
	r.gone.exists(req.NamespacedName)
	if _, wait, ok := r.services.pending(req.NamespacedName, s); ok {
		return reconcile.Result{RequeueAfter: wait}, nil // what we wrote is on its way, and wakes us
	}
	switch service.Decide(r.filter, s, l) {
	case service.Serve:
		return r.serve(ctx, s, l)
	case service.Release:
		r.forget(req.NamespacedName)
		return r.release(ctx, s, l)
	}
	r.propagation.forget(req.NamespacedName)
	return reconcile.Result{}, nil
}

func (r *services) loadBalancer(ctx context.Context, name string, from client.Reader) (*clusterv1.LoadBalancer, error) {
	l := &clusterv1.LoadBalancer{}
	err := from.Get(ctx, types.NamespacedName{Namespace: r.namespace, Name: name}, l)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading LoadBalancer %s: %w", name, err)
	}
	return l, nil
}

// serve sees to finalizer and LoadBalancer, then to the status.
func (r *services) serve(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer) (reconcile.Result, error) {
	key, at := service.Key(s), r.filter.Place(s)
	if len(service.Shown(s, at)) == 0 {
		r.waiting.holds(key)
	}
	if l != nil && l.DeletionTimestamp != nil {
		return reconcile.Result{RequeueAfter: goneCheck}, nil // the old one goes first
	}
	if l != nil && !service.MadeFrom(l, s) {
		_, err := r.report(ctx, s, nil, []service.Problem{{Reason: service.ReasonNameTaken, Refuses: true,
			Message: fmt.Sprintf("the hub has a LoadBalancer %s that was not made from this Service: rename the Service, or ask the hub's operator", l.Name)}})
		return reconcile.Result{}, err
	}
	want := r.want(s, l)
	if l != nil && want.Reborn(l) {
		r.log.Info("class changed, releasing", "service", service.Key(s), "loadbalancer", l.Name)
		return r.release(ctx, s, l)
	}

	var held, applied, unheard error
	var wait time.Duration
	var both sync.WaitGroup
	// Until the Service holds, its deletion is seen all the same: that is what orphans are for.
	if !service.Holds(s, at) && !r.way.Yields(key) {
		both.Go(func() { held = r.patch(ctx, s, "finalizer", holdPatch(s, at)) })
	}
	wait, applied = r.write(ctx, s, l, &want)
	both.Wait()
	if applied == nil {
		r.failing.ends(key)
		r.refused.ends(key)
	} else {
		p, retry, tell := hubProblem(applied, r.fails(key, applied))
		if !tell {
			return reconcile.Result{}, errors.Join(held, applied)
		}
		want.Problems = append(want.Problems, p)
		if wait = retry; retry == 0 {
			unheard = applied
		}
	}
	if held != nil {
		return reconcile.Result{}, held
	}
	if unheard != nil { // told, and tried again soon: nothing but the next try says that the hub is back
		_, err := r.report(ctx, s, l, want.Problems)
		return reconcile.Result{}, errors.Join(unheard, err)
	}
	if service.WishDropped(want, l) {
		return reconcile.Result{RequeueAfter: wait}, nil // the refusal of the wish is answered, and is nobody's problem
	}
	if applied == nil && wait == 0 {
		r.propagated(s, service.Judge(s, want.Problems, l))
	}
	again, err := r.report(ctx, s, l, want.Problems)
	return reconcile.Result{RequeueAfter: soonest(wait, again)}, err
}

// write brings what the hub has of a Service to what is wanted, within hubAttempt. What it finds out about where a Service is sent
// to is among the problems then.
func (r *services) write(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, want *service.Wanted) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, hubAttempt)
	defer cancel()
	var again time.Duration
	if want.Fronts { // first, so that the LoadBalancer finds it
		g, err := r.backends.group(ctx, service.Key(s), r.hub)
		if err != nil {
			return 0, err
		}
		problem, _, lasts, err := r.backends.ensure(ctx, s, l, g)
		if err != nil {
			return 0, err
		}
		if again = lasts; problem != nil {
			want.Problems = append(want.Problems, *problem)
		}
	}
	if wait, err = r.ensure(ctx, s, l, *want); err == nil {
		err = r.unhold(ctx, l)
	}
	if err == nil && wait == 0 && !want.Fronts {
		err = r.backends.drop(ctx, service.Key(s)) // from when it was served otherwise
	}
	return soonest(wait, again), err
}

// fails notes that a write to the hub failed, and returns for how long it does: a refusal counts from the first one, not from when
// the hub was away before it.
func (r *services) fails(key types.NamespacedName, err error) time.Duration {
	failing := r.failing.holds(key)
	if !away(err) {
		return r.refused.holds(key)
	}
	r.refused.ends(key)
	return failing
}

// soonest is the shorter wait; 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (r *services) forget(key types.NamespacedName) {
	r.waiting.ends(key)
	r.failing.ends(key)
	r.refused.ends(key)
	r.propagation.forget(key)
}

// propagated ends the measurement of what the user did, where the hub was told all of it and says what became of it.
func (r *services) propagated(s *v1.Service, v service.Verdict) {
	switch v.Status {
	case metav1.ConditionTrue:
		r.propagation.served(service.Key(s), s.ResourceVersion)
	case metav1.ConditionFalse:
		r.propagation.forget(service.Key(s))
	}
}

// want is what a Service wants of the hub, which has l.
func (r *services) want(s *v1.Service, l *clusterv1.LoadBalancer) service.Wanted {
	asked, _ := r.filter.Class(s)
	want := service.Want(s, asked, l)
	if r.filter.Fronts(s) {
		want = service.Front(s, asked, l)
	}
	if l == nil || !want.Reborn(l) {
		r.className(&want, l)
	}
	return want
}

// className fills in the class where the Service names none: as it is, else the hub's default
// as far as we know it.
func (r *services) className(want *service.Wanted, l *clusterv1.LoadBalancer) {
	switch {
	case want.Spec.ClassName != "":
	case l != nil && l.Spec.ClassName != "":
		want.Spec.ClassName = l.Spec.ClassName
	default:
		want.Spec.ClassName = r.defaults.class()
	}
}

// ensure writes the LoadBalancer if the hub's differs. wait says when to look again at a write that the
// cache hasn't shown.
func (r *services) ensure(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, want service.Wanted) (wait time.Duration, err error) {
	key := types.NamespacedName{Namespace: r.namespace, Name: service.Name(service.Key(s))}
	var cached client.Object
	if l != nil {
		cached = l
	}
	wrote, wait, pending := r.loadBalancers.pending(key, cached)
	switch {
	case pending && (wrote.Equal(want) || wrote.Class() != want.Class()):
		return wait, nil // seen first, then changed or replaced
	case !pending && l != nil && want.Same(l):
		return 0, nil
	}
	r.way.Urgent(service.Key(s))
	version, err := applyLoadBalancer(ctx, r.hub, key, want)
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil {
		return 0, err
	}
	r.loadBalancers.wrote(key, want, version)
	r.propagation.wrote(service.Key(s))
	r.log.Info("wrote load balancer", "service", service.Key(s), "loadbalancer", key.Name)
	return unseen, nil
}

// report writes the Service's status where it differs, and an event where the condition does. again
// says when to look again at a Service that waits.
func (r *services) report(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, problems []service.Problem) (again time.Duration, err error) {
	key, at := service.Key(s), r.filter.Place(s)
	shown := service.Shown(s, at)
	ingress := shown
	if l != nil || len(problems) > 0 {
		ingress = service.Ingress(s, at, problems, l)
	}
	v := service.Judge(s, problems, l)
	if v == (service.Verdict{}) && len(ingress) == 0 {
		if waits := r.waiting.holds(key); waits < tellAfter {
			again = tellAfter - waits
		} else {
			v = service.Waits(l)
		}
	}
	condition, said := nextCondition(s, v)
	if !said && equality.Semantic.DeepEqual(ingress, shown) || r.way.Yields(key) {
		return again, nil
	}
	if err := r.patchStatus(ctx, s, publishPatch(s, at, ingress, condition)); err != nil {
		return again, err
	}
	if len(ingress) > 0 {
		if waited, ok := r.waiting.ends(key); ok {
			r.metrics.publish.Observe(waited.Seconds())
			r.log.Info("published", "service", key, "address", ingress[0].IP+ingress[0].Hostname)
		}
	}
	if said && !v.Quiet {
		r.events.say(s, v)
		if !v.Good() {
			r.log.Info("not served as it stands", "service", key, "reason", v.Reason, "message", v.Message)
		}
	}
	return again, nil
}

// nextCondition is the condition that says v, nil if it says so already.
func nextCondition(s *v1.Service, v service.Verdict) (*metav1.Condition, bool) {
	if v == (service.Verdict{}) {
		return nil, false
	}
	next := metav1.Condition{Type: service.ConditionProgrammed, Status: v.Status, Reason: v.Reason, Message: v.Message, LastTransitionTime: metav1.Now()}
	if old := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed); old != nil {
		if old.Status == next.Status && old.Reason == next.Reason && old.Message == next.Message {
			return nil, false
		}
		if old.Status == next.Status {
			next.LastTransitionTime = old.LastTransitionTime
		}
	}
	return &next, true
}

// patch writes to a Service, and remembers it until the cache shows it. A Service that is gone is no error.
func (r *services) patch(ctx context.Context, s *v1.Service, what string, patch map[string]any) error {
	p, err := rawPatch(patch)
	if err != nil {
		return err
	}
	answer := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	err = r.tenant.Patch(ctx, answer, p, client.FieldOwner(fieldManager))
	return r.patched(s, what, answer, err)
}

func (r *services) patchStatus(ctx context.Context, s *v1.Service, patch map[string]any) error {
	p, err := rawPatch(patch)
	if err != nil {
		return err
	}
	answer := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	err = r.tenant.Status().Patch(ctx, answer, p, client.FieldOwner(fieldManager))
	return r.patched(s, "status", answer, err)
}

func (r *services) patched(s *v1.Service, what string, answer *v1.Service, err error) error {
	r.metrics.wrote(tenantCluster, what, err)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing %s of Service %s: %w", what, service.Key(s), err)
	}
	r.services.wrote(service.Key(s), struct{}{}, answer.ResourceVersion)
	return nil
}
