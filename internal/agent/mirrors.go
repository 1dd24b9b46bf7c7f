package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/agent/service"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// mirrors keeps in the hub what LoadBalancers over Machines of a management cluster are to have there, and their status here. A key
// is worked on by one goroutine at a time.
type mirrors struct {
	tenant, hub         client.Client // read from the caches; what the hub's returns is never changed
	tenantLive, hubLive client.Reader
	namespace, hubUID   string
	defaults            *defaults
	// proxied says whether proxies serve a class, as far as is known.
	proxied    func(class string) (yes, known bool)
	events     *recorder
	clusterUID string
	toldHeld   sync.Once
	log        *slog.Logger
	metrics    *metrics

	loadBalancers *memory[management.Wanted]
	groups        *memory[v1alpha1.TargetGroupSpec]
	failing       *since // to write to the hub
	refused       *since // to write there, by a hub that answers
	silent        *silence
	beside        *beside
	// gone and goneGroups are what was seen to be deleted here.
	gone, goneGroups *observed[types.NamespacedName]
}

// Reconcile does one round for one LoadBalancer, which may be gone.
func (r *mirrors) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	of := req.NamespacedName
	if why, known := r.beside.still(); why != "" {
		return r.standStill(ctx, of, why, known)
	}
	have, err := r.loadBalancer(ctx, of, r.hub)
	if err != nil {
		return reconcile.Result{}, err
	}
	l := &clusterv1.LoadBalancer{}
	switch err := r.tenant.Get(ctx, of, l); {
	case apierrors.IsNotFound(err):
		r.forget(of)
		return r.orphan(ctx, of, have)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading LoadBalancer: %w", err)
	}
	r.gone.exists(of)
	if l.DeletionTimestamp != nil || !management.Mirrored(l) {
		r.forget(of)
		return r.release(ctx, l, have)
	}
	return r.serve(ctx, l, have)
}

// loadBalancer is the hub's; nil: there is none.
func (r *mirrors) loadBalancer(ctx context.Context, of types.NamespacedName, from client.Reader) (*clusterv1.LoadBalancer, error) {
	l := &clusterv1.LoadBalancer{}
	switch err := from.Get(ctx, r.key(of), l); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading LoadBalancer %s of the hub: %w", r.key(of).Name, err)
	}
	return l, nil
}

func (r *mirrors) key(of types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: management.Name(of)}
}

func (r *mirrors) forget(of types.NamespacedName) {
	r.failing.ends(of)
	r.refused.ends(of)
}

// serve sees to the finalizer and what the hub has, then to the status.
func (r *mirrors) serve(ctx context.Context, l, have *clusterv1.LoadBalancer) (reconcile.Result, error) {
	of := management.Key(l)
	if wrote, err := r.hold(ctx, l, have); err != nil || wrote {
		return reconcile.Result{}, err // its change wakes us
	}
	problem, same, again, err := r.write(ctx, l, have)
	if err == nil {
		r.forget(of)
	} else {
		failing := r.failing.holds(of)
		if away(err) {
			r.refused.ends(of)
		} else {
			failing = r.refused.holds(of)
		}
		var tell bool
		if problem, again, tell = hubRefusal(err, failing); !tell {
			return reconcile.Result{}, err
		}
		if again != 0 {
			err = nil // told, and tried again then
		}
	}
	next := l.DeepCopy()
	next.Status = management.Status(l, have, same, fmt.Sprintf("LoadBalancer %s in namespace %s of the hub", r.key(of).Name, r.namespace), problem)
	return reconcile.Result{RequeueAfter: again}, errors.Join(err, r.say(ctx, l, next))
}

// hold writes what a LoadBalancer is to carry before the hub has anything of it: the finalizer, the class, and in which hub it is
// served. It returns whether it wrote.
func (r *mirrors) hold(ctx context.Context, l, have *clusterv1.LoadBalancer) (bool, error) {
	next := l.DeepCopy()
	controllerutil.AddFinalizer(next, clusterv1.MirrorFinalizer)
	if next.Spec.ClassName == "" {
		next.Spec.ClassName = r.defaults.class()
	}
	if noted := l.Annotations[clusterv1.HubAnnotation]; r.hubUID != "" && noted != r.hubUID && (noted == "" || r.served(l, have)) {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, clusterv1.HubAnnotation, r.hubUID)
	}
	if equality.Semantic.DeepEqual(l, next) {
		return false, nil
	}
	return true, r.writeHere(ctx, l, next, false)
}

// writeHere writes what differs, if the LoadBalancer is as it was read: the controller of members writes there, too. Where it
// isn't, or is gone, its change wakes us.
func (r *mirrors) writeHere(ctx context.Context, l, next *clusterv1.LoadBalancer, status bool) error {
	patch := client.MergeFromWithOptions(l, client.MergeFromWithOptimisticLock{})
	var err error
	if status {
		err = r.tenant.Status().Patch(ctx, next, patch, client.FieldOwner(fieldManager))
	} else {
		err = r.tenant.Patch(ctx, next, patch, client.FieldOwner(fieldManager))
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	r.metrics.wrote(tenantCluster, "loadbalancer", err)
	if err != nil {
		return fmt.Errorf("writing LoadBalancer %s: %w", management.Key(l), err)
	}
	return nil
}

// served says that the hub's proxies serve a LoadBalancer as it is to be there.
func (r *mirrors) served(l, have *clusterv1.LoadBalancer) bool {
	want := management.Want(l, have)
	return want.Same(have) && management.Served(have)
}

// unproven is why the hub's word that a Machine is drained proves nothing; "": it does. have is the hub's LoadBalancer, nil if it has
// none: then its manager doesn't know which proxies to ask.
func (r *mirrors) unproven(l, have *clusterv1.LoadBalancer) string {
	if !management.Known(have) {
		return "its manager hasn't looked at the LoadBalancer yet"
	}
	if yes, _ := r.proxied(have.Spec.ClassName); !yes {
		return fmt.Sprintf("that proxies serve class %q isn't known, and nobody else says that they have stopped", have.Spec.ClassName)
	}
	if noted := l.Annotations[clusterv1.HubAnnotation]; r.hubUID != "" && noted != r.hubUID {
		return "it is another one than served this LoadBalancer before, and its proxies don't serve it yet"
	}
	return ""
}

// Unsure asks the hub itself, within hubRead: what its cache has may be of a time when the hub was there, or another one. One that is
// silent is asked for one of many.
func (r *mirrors) Unsure(ctx context.Context, l *clusterv1.LoadBalancer) string {
	// The hub's words may differ each time, and a condition that differs is looked at anew.
	const away = "the hub can't be asked; condition Mirrored says why, and it is asked again by itself"
	if !r.silent.breaks() {
		return away
	}
	soon, cancel := context.WithTimeout(ctx, hubRead)
	defer cancel()
	have, err := r.loadBalancer(soon, management.Key(l), r.hubLive)
	r.silent.heard(soon.Err())
	if err != nil {
		return away
	}
	return management.Unsure(l, have, r.hubUID)
}

// write brings what the hub has of a LoadBalancer to what is wanted, within hubAttempt. same says that the hub has it as it stands
// here. again says when to look again.
func (r *mirrors) write(ctx context.Context, l, have *clusterv1.LoadBalancer) (problem *management.Problem, same bool, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, hubAttempt)
	defer cancel()
	of, want := management.Key(l), management.Want(l, have)
	if have != nil {
		if origin, ok := management.Origin(have); !ok || origin != of {
			return &management.Problem{Reason: clusterv1.ReasonNameTaken, Message: fmt.Sprintf("the hub has a LoadBalancer %s that was not made from this one: rename this one, or ask the hub's operator", have.Name)}, false, 0, nil
		}
		if have.DeletionTimestamp != nil {
			return &management.Problem{Reason: clusterv1.ReasonDeleting, Message: "the hub's LoadBalancer is being deleted, and is made again once it is gone"}, false, goneCheck, nil
		}
	}
	if yes, known := r.proxied(l.Spec.ClassName); known && !yes && l.Spec.ClassName != "" {
		return &management.Problem{Reason: clusterv1.ReasonNotSupported, Message: fmt.Sprintf("class %q of the hub has no proxies, so that nobody would say when they have stopped: use one that has", l.Spec.ClassName)}, false, refusedRetry, nil
	}
	inHub := &v1alpha1.TargetGroupList{}
	if err := r.hub.List(ctx, inHub, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelTargets: r.key(of).Name}); err != nil {
		return nil, false, 0, fmt.Errorf("listing TargetGroups of the hub: %w", err)
	}
	_, again, err = r.place(ctx, of, inHub.Items) // first, so that the LoadBalancer finds them
	if err != nil {
		return nil, want.Same(have), 0, err // what the hub says of the LoadBalancer is a word on this one all the same
	}
	if l.Spec.ClassName == "" {
		return &management.Problem{Reason: clusterv1.ReasonNoClass, Message: "no class is named, and the hub marks none as default for this Tenant: set spec.className"}, false, refusedRetry, nil
	}
	if have != nil && have.Spec.ClassName != l.Spec.ClassName { // it can't change
		r.log.Info("class changed, releasing", "loadbalancer", of)
		return nil, false, goneCheck, r.delete(ctx, have)
	}
	wait, same, err := r.ensure(ctx, of, l, have)
	if err == nil && same && have.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
		err = r.annotate(ctx, have, nil)
	}
	return nil, same, soonest(wait, again), err
}

// ensure writes the LoadBalancer where the hub's differs.
func (r *mirrors) ensure(ctx context.Context, of types.NamespacedName, l, have *clusterv1.LoadBalancer) (wait time.Duration, same bool, err error) {
	want := management.Want(l, have)
	var cached client.Object
	if have != nil {
		cached = have
	}
	_, wait, pending := r.loadBalancers.pending(r.key(of), cached)
	switch {
	case pending:
		return wait, false, nil // seen first, then changed
	case want.Same(have):
		return 0, true, nil
	}
	version, err := applyLoadBalancer(ctx, r.hub, r.key(of), service.Wanted{Annotations: want.Annotations, Spec: want.Spec})
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil {
		return 0, false, err
	}
	r.loadBalancers.wrote(r.key(of), want, version)
	r.log.Info("wrote load balancer", "loadbalancer", of, "inHub", r.key(of).Name)
	return unseen, false, nil
}

// say writes the status.
func (r *mirrors) say(ctx context.Context, l, next *clusterv1.LoadBalancer) error {
	if equality.Semantic.DeepEqual(l.Status, next.Status) {
		return nil
	}
	return r.writeHere(ctx, l, next, true)
}

// hubRead bounds how long what the hub has is waited for, where it was never read yet.
const hubRead = 2 * time.Second

// hubRefusal is hubProblem for a LoadBalancer.
func hubRefusal(err error, failing time.Duration) (p *management.Problem, retry time.Duration, tell bool) {
	said, retry, tell := hubProblem(err, failing)
	p = &management.Problem{Reason: said.Reason, Message: said.Message}
	if errors.Is(err, errTaken) {
		p.Message = err.Error() + ", which was not made from this LoadBalancer: rename it, or ask the hub's operator"
	}
	return p, retry, tell
}
