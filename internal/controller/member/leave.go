package member

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// letGo lifts the hooks of a LoadBalancer that is being deleted, or whose targets aren't Machines any more, and takes away what
// was made for it; then its finalizer. What moves to another hub keeps all: there it goes on.
func (r *Reconciler) letGo(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (reconcile.Result, error) {
	of := client.ObjectKeyFromObject(l)
	next := l.DeepCopy()
	meta.RemoveStatusCondition(&next.Status.Conditions, clusterv1.ConditionTargetsFollowed)
	again := reconcile.Result{}
	if _, moves := l.Annotations[clusterv1.MoveAnnotation]; !moves {
		by, _ := r.witness(l, class, nil) // where it is not known who, every proxy
		left, err := r.clear(ctx, of, by)
		if apierrors.IsForbidden(err) {
			left, err = fmt.Sprintf("%s may not write what is to be taken away: apply %s (%v)", r.who().Name, r.who().Rights, err), nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		if left != "" {
			again.RequeueAfter = lookAgain
			meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
				Type: clusterv1.ConditionTargetsFollowed, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonStandsStill, ObservedGeneration: l.Generation,
				Message: sentence("its hooks can't be lifted yet: " + left),
			})
		}
	}
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil || again.RequeueAfter > 0 {
		return again, err
	}
	r.forget(of)
	return again, kit.LetGo(ctx, r.Client, next, clusterv1.MembersFinalizer)
}

// vanished is for a LoadBalancer that is gone, and may not have let go: a hook must wedge no Machine.
func (r *Reconciler) vanished(ctx context.Context, of types.NamespacedName) error {
	r.forget(of)
	has, err := r.hasTraces(ctx, of)
	if err != nil {
		return err
	}
	if !has {
		r.mu.Lock()
		delete(r.missed, of)
		r.mu.Unlock()
		return nil
	}
	if err := r.Reader.Get(ctx, of, &clusterv1.LoadBalancer{}); !apierrors.IsNotFound(err) {
		return err // it is there: the cache lags, and wakes it
	}
	left := ""
	if why := r.mute(); why != "" && r.fresh(of) {
		left = why
	} else {
		left, err = r.clear(ctx, of, r.everyProxy())
	}
	if err == nil && left != "" {
		r.Logger.Info("what is left of a LoadBalancer that is gone stays for now", "loadbalancer", of.String(), "why", left)
		r.Queue.AddAfter(of.Namespace, of.Name, lookAgain)
	}
	return err
}

// mute says why nobody has yet been heard who would know of a LoadBalancer that is missing; "": somebody was.
func (r *Reconciler) mute() string {
	if r.Elsewhere != nil {
		return "it is missing, and this cluster may be being restored"
	}
	if t := proof.JudgeTrouble(r.Fleet.All()); t.Mute {
		return "no proxy has said anything yet, as where this hub is being restored"
	}
	return ""
}

// fresh says that a LoadBalancer was first missed less than DefaultMaxWait ago: a restore may yet bring it.
func (r *Reconciler) fresh(of types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	if _, known := r.missed[of]; !known {
		r.missed[of] = now
	}
	return now.Sub(r.missed[of]) < machines.DefaultMaxWait
}

// hasTraces says whether the cache shows anything of a LoadBalancer.
func (r *Reconciler) hasTraces(ctx context.Context, of types.NamespacedName) (bool, error) {
	groups, _, err := r.generated(ctx, r.Client, of)
	if err != nil || len(groups) > 0 {
		return len(groups) > 0, err
	}
	kind := r.watched()
	if kind.Empty() {
		return false, nil
	}
	objects, err := r.list(ctx, r.Cache, kind, of.Namespace)
	return slices.ContainsFunc(objects, func(o unstructured.Unstructured) bool {
		a := o.GetAnnotations()
		return rules.Hooked(a, of.Name) || rules.StateIn(a, of.Name) != ""
	}), err
}

// clear takes all that is a LoadBalancer's off the Machines of its namespace, then its TargetGroups, and says what it had to
// leave as it is; "": nothing.
func (r *Reconciler) clear(ctx context.Context, of types.NamespacedName, by witness) (string, error) {
	if why := by.keeps(); why != "" {
		return why, nil
	}
	if left, err := r.strip(ctx, of); err != nil || left != "" {
		return left, err
	}
	groups, _, err := r.generated(ctx, r.Client, of)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if err := r.drop(ctx, g); err != nil {
			return "", err
		}
	}
	return "", nil
}

// strip is clear's part about Machines.
func (r *Reconciler) strip(ctx context.Context, of types.NamespacedName) (string, error) {
	kind := r.watched()
	if kind.Empty() {
		switch served, err := r.Clusters.Served("Machine"); {
		case err != nil:
			return "", err
		case served.Empty():
			return "", nil // there is none
		}
		return fmt.Sprintf("%s may not read Machines: apply %s", r.who().Name, r.who().Rights), nil
	}
	objects, err := r.list(ctx, r.Reader, kind, of.Namespace)
	if err != nil {
		return "", err
	}
	clusters := map[string]endpoint.Cluster{"": {}} // a Machine that lost its label is none's
	var still []string
	var failed []error
	for i := range objects {
		m := machines.Read(&objects[i])
		want := rules.Annotate(m.Annotations, of.Name, rules.Decision{}, "", m.Deleting)
		if maps.Equal(want, m.Annotations) {
			continue
		}
		c, known := clusters[m.Cluster()]
		if !known {
			if c, err = r.Clusters.Look(ctx, types.NamespacedName{Namespace: of.Namespace, Name: m.Cluster()}); err != nil {
				return "", err
			}
			clusters[m.Cluster()] = c
		}
		switch {
		case m.Still() != "":
			still = append(still, fmt.Sprintf("Machine %s: %s", m.Name, m.Still()))
		case c.Still != "":
			still = append(still, fmt.Sprintf("Machine %s: %s", m.Name, c.Still))
		default:
			if err := r.patch(ctx, &objects[i], func(o *unstructured.Unstructured) { o.SetAnnotations(want) }); err != nil {
				failed = append(failed, err)
				continue
			}
			r.Logger.Info("hook lifted", "loadbalancer", of.String(), "machine", m.Name)
		}
	}
	slices.Sort(still)
	if len(failed) > 0 {
		return "", failed[0] // one by one: it may be a conflict, or a right that is missing
	}
	return kit.Some(still), nil
}
