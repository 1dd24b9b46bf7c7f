package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type reconciler struct {
	Options
	kind   schema.GroupVersionKind
	list   client.ObjectList
	client client.Client
	// live reads from the API server itself: what decides whether anything may be done outside.
	live   client.Reader
	kinds  meta.RESTMapper
	events events.EventRecorder
	log    logr.Logger
	calls  *calls

	mu      sync.Mutex
	records map[types.UID]*record
	uids    map[types.NamespacedName]types.UID
}

// record is what this process remembers of an object. It only spares calls, or makes for longer waits: a process that
// remembers nothing does the same.
type record struct {
	// ensured and members are what was last wanted, and done.
	ensured, members string
	stopped          map[string]time.Time
	// failed is the last attempt to change what is there, where it failed.
	failed attempt
	// failures in a row, and looks in a row at something that is under way and doesn't change.
	failures, quiet int
	// host that was looked up last, when, and whether it resolved.
	host     string
	lookedUp time.Time
	resolves bool
}

// attempt is one that failed at what key says, and isn't made again before a time, however often members are looked at.
type attempt struct {
	key     string
	problem *problem
	urgency urgency
	times   int
	again   time.Time
}

// after one more failure it says when to look again.
func (a *attempt) after(u urgency, key string, o Options) urgency {
	if a.key != key {
		*a = attempt{key: key}
	}
	wait := o.Resync
	if u == failing {
		u, wait = underWay, min(o.Poll<<min(a.times, 10), slowest)
	}
	a.urgency, a.again = u, time.Now().Add(wait)
	a.times++
	return u
}

func (r *reconciler) record(key types.NamespacedName, uid types.UID) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.uids[key]; ok && old != uid {
		delete(r.records, old)
		delete(r.uids, key)
	}
	if uid == "" {
		return nil
	}
	r.uids[key] = uid
	if r.records[uid] == nil {
		r.records[uid] = &record{stopped: map[string]time.Time{}}
	}
	return r.records[uid]
}

func specOf(o client.Object) (*contract.Spec, bool) {
	x, ok := o.(Object)
	if !ok {
		return nil, false
	}
	spec, _ := x.Contract()
	return spec, true
}

func copyOf(o Object) (Object, error) {
	c, ok := o.DeepCopyObject().(Object)
	if !ok {
		return nil, fmt.Errorf("the deep copy of %T is a %T: generate its deep copies anew", o, o.DeepCopyObject())
	}
	return c, nil
}

// pass is one look at one object.
type pass struct {
	*reconciler
	o   Object
	rec *record
	report
}

// Reconcile looks at an object, takes at most one step of each kind outside, and writes what came of it once.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := copyOf(r.Kind)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.client.Get(ctx, req.NamespacedName, o); apierrors.IsNotFound(err) {
		r.record(req.NamespacedName, "")
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading it: %w", err)
	}
	p := &pass{reconciler: r, o: o, rec: r.record(req.NamespacedName, o.GetUID())}
	after, err := p.run(ctx)
	wrote := false
	if err == nil {
		wrote, err = p.writeStatus(ctx)
	}
	if apierrors.IsConflict(err) { // somebody else wrote it meanwhile, or the cache is behind
		return reconcile.Result{RequeueAfter: r.Poll}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: p.next(after, wrote)}, nil
}

// urgency is when to look again; of two the greater counts.
type urgency int

const (
	done     urgency = iota // never
	atRest                  // at the next resync
	underWay                // soon, and ever more slowly while nothing changes
	failing                 // likewise, by how often it failed in a row
)

func (p *pass) next(u urgency, changed bool) time.Duration {
	switch u {
	case done:
		return 0
	case failing:
		p.rec.failures++
		return min(p.Poll<<min(p.rec.failures-1, 10), slowest)
	case underWay:
		p.rec.failures = 0
		if p.rec.quiet++; changed {
			p.rec.quiet = 1
		}
		return min(p.Poll<<min((p.rec.quiet-1)/4, 10), p.Resync)
	}
	p.rec.failures, p.rec.quiet = 0, 0
	return p.Resync
}

// run does what is to be done. An error is of the hub; the provider's are in the report.
func (p *pass) run(ctx context.Context) (urgency, error) {
	all, err := p.loadBalancers(ctx, p.o)
	if err != nil {
		return done, err
	}
	var l *clusterv1.LoadBalancer
	if len(all) == 1 {
		l = all[0]
	}
	cluster, err := p.cluster(ctx, p.o, l)
	if err != nil {
		return done, err
	}
	if p.paused = heldBy(p.o, l, cluster); p.paused != "" {
		return atRest, nil
	}
	if p.o.GetDeletionTimestamp() != nil {
		return p.delete(ctx, cluster)
	}
	switch {
	case len(all) == 0:
		return p.fail(contract.ReasonNoLoadBalancer, "No LoadBalancer of the namespace refers to this object in spec.infrastructureRef: nothing is done outside."), nil
	case len(all) > 1:
		return p.fail(contract.ReasonSeveralLoadBalancers, fmt.Sprintf("LoadBalancers %s and %s both refer to this object: have one of them refer to another.", all[0].Name, all[1].Name)), nil
	}
	p.describeTargets(l)
	wanted, problem, err := p.wanted(ctx, l, cluster)
	if err != nil {
		return done, err
	}
	if problem != nil {
		p.problem = problem
		return atRest, nil
	}
	state, u, err := p.ensure(ctx, wanted)
	if state == nil || err != nil {
		return u, err
	}
	then, err := p.members(ctx, l, wanted.Ref, *state)
	return max(u, then), err
}

// ensure has the load balancer be there as wanted, and writes down which it is. Where only the second fails, it goes on with
// what is there: members come and go all the same. Without a state, that is all for this time.
func (p *pass) ensure(ctx context.Context, w Wanted) (*State, urgency, error) {
	state, err := call(ctx, p.calls, p.o, "Describe", func(ctx context.Context) (State, error) { return p.Provider.Describe(ctx, w.Ref) })
	found := err == nil
	made := p.o.GetAnnotations()[contract.MadeAnnotation]
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return nil, p.failed(ctx, err), nil
	case !found && w.ID != "" && made == "":
		p.absent = true
		return nil, p.fail(contract.ReasonNotFound, fmt.Sprintf("spec.id: %s isn't there outside: mend it, or leave it out to have a load balancer made.", w.ID)), nil
	case !found && p.refused != nil:
		p.absent, p.problem = true, p.refused
		return nil, atRest, nil
	}
	p.absent = !found
	again := !found && w.ID != ""
	if !found {
		w.ID = ""
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, done, fmt.Errorf("encoding what is wanted: %w", err)
	}
	key := fmt.Sprintf("%s of generation %d", text, p.o.GetGeneration())
	u := done
	switch failed := &p.rec.failed; {
	case found && (p.refused != nil || len(state.Drift) == 0 && p.rec.ensured == key):
	case found && failed.key == key && time.Now().Before(failed.again):
		p.problem, u = failed.problem, failed.urgency
	default:
		changed, err := call(ctx, p.calls, p.o, "Ensure", func(ctx context.Context) (State, error) { return p.Provider.Ensure(ctx, w) })
		switch {
		case err == nil:
			state, p.rec.ensured, *failed = changed, key, attempt{}
		case found:
			u = failed.after(p.failed(ctx, err), key, p.Options)
			failed.problem = p.problem
		default:
			return nil, p.failed(ctx, err), nil
		}
	}
	if state.ID == "" {
		return nil, p.failed(ctx, Terminal("the provider names no ID of what it made: that is a bug of it")), nil
	}
	p.state, p.exists, p.absent = &state, true, false
	if !found {
		reason := contract.ReasonMade
		if again {
			reason = contract.ReasonMadeAgain
		}
		p.event(corev1.EventTypeNormal, reason, "Ensure", "%s was made outside.", state.ID)
	}
	spec, _ := p.o.Contract()
	ours := spec.ID == "" || made != ""
	return &state, u, p.patch(ctx, func(o Object) {
		spec, _ := o.Contract()
		spec.ID = state.ID
		if ours {
			if o.GetAnnotations() == nil {
				o.SetAnnotations(map[string]string{})
			}
			o.GetAnnotations()[contract.MadeAnnotation] = state.ID
		}
		if e := state.Endpoint; !isSet(value(spec.Endpoint)) && isSet(e) {
			spec.Endpoint = &e
		}
	})
}

// members has those outside be the targets.
func (p *pass) members(ctx context.Context, l *clusterv1.LoadBalancer, ref Ref, state State) (urgency, error) {
	spec, status := p.o.Contract()
	p.lookUp(ctx, value(spec.Endpoint))
	selected, err := p.targets(ctx, l)
	if err != nil {
		return done, err
	}
	ref.ID = state.ID
	pl := plan(scene{
		targets: selected.targets, complete: len(selected.groups) > 0, outside: state.Members, before: status.Targets, stopped: p.rec.stopped,
		now: time.Now(), settle: p.Settle, drainFor: selected.drainFor,
	})
	p.groups, p.planned = selected.groups, &pl
	for _, a := range pl.strangers {
		p.event(corev1.EventTypeWarning, contract.ReasonNotATarget, "RemoveMember", "Member %s was added outside, and is no target: it is removed. Add targets in the hub.", a)
	}
	text, err := json.Marshal(pl.want)
	if err != nil {
		return done, fmt.Errorf("encoding members: %w", err)
	}
	if key := string(text); differ(pl.want, state.Members) || p.rec.members != key {
		if _, err := call(ctx, p.calls, p.o, "SetMembers", func(ctx context.Context) (struct{}, error) {
			return struct{}{}, p.Provider.SetMembers(ctx, ref, pl.want)
		}); err != nil {
			return p.failed(ctx, err), nil
		}
		p.rec.members = key
		return underWay, nil
	}
	if pl.again || state.Pending != "" || len(state.Drift) > 0 {
		return underWay, nil
	}
	return atRest, nil
}

// delete has what was made for the object be gone, and then lets the object go.
func (p *pass) delete(ctx context.Context, cluster *unstructured.Unstructured) (urgency, error) {
	if !controllerutil.ContainsFinalizer(p.o, contract.Finalizer) {
		return done, nil
	}
	spec, _ := p.o.Contract()
	made := p.o.GetAnnotations()[contract.MadeAnnotation]
	if spec.ID != "" && made == "" {
		p.event(corev1.EventTypeNormal, contract.ReasonKept, "Delete", "%s was adopted, so it is left outside.", spec.ID)
		return done, p.letGo(ctx)
	}
	credentials, missing, err := p.credentials(ctx, p.o, cluster)
	if err != nil {
		return done, err
	}
	if missing != nil {
		p.problem = missing
		return underWay, nil
	}
	ref, err := p.ref(credentials)
	if err != nil {
		return done, err
	}
	ref.ID = made
	_, err = call(ctx, p.calls, p.o, "Delete", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.Provider.Delete(ctx, ref)
	})
	switch {
	case errors.Is(err, ErrNotFound):
		p.event(corev1.EventTypeNormal, contract.ReasonDeleted, "Delete", "Nothing is left of it outside.")
		return done, p.letGo(ctx)
	case err != nil:
		return p.failed(ctx, err), nil
	}
	p.problem = &problem{contract.ReasonDeleting, "It is being deleted outside."}
	return underWay, nil
}

func (p *pass) letGo(ctx context.Context) error {
	err := p.patch(ctx, func(o Object) { controllerutil.RemoveFinalizer(o, contract.Finalizer) })
	p.gone = err == nil
	return client.IgnoreNotFound(err)
}
