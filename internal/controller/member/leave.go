package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// letGo lifts the hooks of a LoadBalancer that is being deleted, or whose targets are neither Machines nor Nodes any more, takes off what
// they say of it, and away what was made for it; then its finalizer. What moves to another hub keeps all: there it goes on.
func (r *Reconciler) letGo(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) (reconcile.Result, error) {
	of := client.ObjectKeyFromObject(l)
	next := l.DeepCopy()
	meta.RemoveStatusCondition(&next.Status.Conditions, clusterv1.ConditionTargetsFollowed)
	again := reconcile.Result{}
	if _, moves := l.Annotations[clusterv1.MoveAnnotation]; !moves {
		by, _ := r.witness(l, class, nil) // where it is not known who, every proxy
		left, err := r.clear(ctx, of, build.KindOf(l), by)
		if apierrors.IsForbidden(err) {
			left, err = fmt.Sprintf("%s may not write what is to be taken away: apply %s (%v)", r.who().Name, r.rights(build.KindOf(l)), err), nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		if left != "" {
			again.RequeueAfter = lookAgain
			meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
				Type: clusterv1.ConditionTargetsFollowed, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonStandsStill, ObservedGeneration: l.Generation,
				Message: sentence(fmt.Sprintf("what %s wrote can't be taken off yet: %s", r.who().Name, left)),
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
	has, err := r.traces(ctx, of, "")
	if err != nil {
		return err
	}
	if groups, _, err := r.generated(ctx, r.Client, of); err != nil {
		return err
	} else if len(has)+len(groups) == 0 {
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
		left, err = r.clear(ctx, of, "", r.everyProxy())
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

// traces are the kinds of whose objects the cache shows one that speaks of a LoadBalancer. One of them isn't looked at; "": all are.
func (r *Reconciler) traces(ctx context.Context, of types.NamespacedName, but rules.Kind) (out []rules.Kind, _ error) {
	for _, kind := range rules.Kinds() {
		if kind == but || r.watched(kind).Empty() {
			continue
		}
		objects, err := r.list(ctx, r.Cache, kind, of.Namespace)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(objects, func(o object) bool { return traced(kind, of, o) }) {
			out = append(out, kind)
		}
	}
	return out, nil
}

func traced(kind rules.Kind, of types.NamespacedName, o object) bool {
	key := kind.Key(of.Namespace, of.Name)
	return kind.Hooked(o.Annotations, key) || kind.StateIn(o.Annotations, key) != ""
}

// clear takes all that is a LoadBalancer's off the objects that its targets are made from, or were, then its TargetGroups, and says what
// it had to leave as it is; "": nothing. kind is theirs as far as the LoadBalancer says; "": it doesn't.
func (r *Reconciler) clear(ctx context.Context, of types.NamespacedName, kind rules.Kind, by witness) (string, error) {
	if why := by.keeps(); why != "" {
		return why, nil
	}
	groups, _, err := r.generated(ctx, r.Client, of)
	if err != nil {
		return "", err
	}
	kinds, err := r.traces(ctx, of, kind)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		kinds = append(kinds, rules.KindOf(g.Labels[v1alpha1.LabelGeneratedFrom]))
	}
	if kind == "" && len(kinds) == 0 {
		kind = rules.Machines // which a hook must not wedge
	}
	for _, k := range rules.Kinds() {
		if k != kind && !slices.Contains(kinds, k) {
			continue
		}
		if left, err := r.strip(ctx, of, k, func(object) bool { return false }); err != nil || left != "" {
			return left, err
		}
	}
	for _, g := range groups {
		if err := r.drop(ctx, g); err != nil {
			return "", err
		}
	}
	return "", nil
}

// shed takes what is a LoadBalancer's off the objects of another kind than its targets are of now, each once its target stands in no
// TargetGroup any more, as a view has them that was read from the API server. A Machine that is being deleted while its target serves on isn't held for longer than the last active one would be.
func (r *Reconciler) shed(ctx context.Context, v *view, kinds []rules.Kind) error {
	if v.Shared.Frozen != "" {
		return nil
	}
	of := client.ObjectKeyFromObject(v.LoadBalancer)
	stands, serves := map[string]bool{}, v.Serving()
	v.Targets(func(g *machines.Group, at int) { stands[g.Object.Spec.Targets[at].UID] = true })
	var failed []error
	for _, kind := range kinds {
		most := machines.Held(kind, v.LoadBalancer).MaxWait / 2
		_, err := r.strip(ctx, of, kind, func(o object) bool {
			return stands[o.UID] && !(o.Deleting && serves[o.UID] && v.Waited(o.UID) >= most)
		})
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// strip takes what is a LoadBalancer's off all of a kind but those that are kept. It says what it had to leave as it is; "": nothing.
func (r *Reconciler) strip(ctx context.Context, of types.NamespacedName, kind rules.Kind, keep func(object) bool) (string, error) {
	if r.watched(kind).Empty() {
		if kind == rules.Machines {
			switch served, err := r.Clusters.Served("Machine"); {
			case err != nil:
				return "", err
			case served.Empty():
				return "", nil // there is none
			}
		}
		return fmt.Sprintf("%s may not read %ss: apply %s", r.who().Name, kind, r.rights(kind)), nil
	}
	objects, err := r.list(ctx, r.Reader, kind, of.Namespace)
	if err != nil {
		return "", err
	}
	clusters := map[string]endpoint.Cluster{"": {}} // a Machine that lost its label is none's
	var still []string
	var failed []error
	for i := range objects {
		m := &objects[i]
		want := kind.Annotate(m.Annotations, kind.Key(of.Namespace, of.Name), rules.Decision{}, "", m.Deleting)
		if maps.Equal(want, m.Annotations) || keep(*m) {
			continue
		}
		if why, err := r.standing(ctx, of.Namespace, kind, m, clusters); err != nil {
			return "", err
		} else if why != "" {
			still = append(still, fmt.Sprintf("%s %s: %s", kind, m.Name, why))
			continue
		}
		if _, err := r.patchOne(ctx, kind, m.Object, func(o client.Object) { reannotate(o, m.Annotations, want) }); err != nil {
			failed = append(failed, err)
			continue
		}
		r.Logger.Info("let go", "loadbalancer", of.String(), "kind", string(kind), "name", m.Name)
	}
	slices.Sort(still)
	if len(failed) > 0 {
		return "", failed[0] // one by one: it may be a conflict, or a right that is missing
	}
	return kit.Some(still), nil
}

// standing says why nobody may write an object now; "": one may. What was found of Clusters is remembered.
func (r *Reconciler) standing(ctx context.Context, namespace string, kind rules.Kind, m *object, found map[string]endpoint.Cluster) (string, error) {
	if kind == rules.Nodes {
		return "", nil
	}
	c, known := found[m.Cluster()]
	if !known {
		var err error
		if c, err = r.Clusters.Look(ctx, types.NamespacedName{Namespace: namespace, Name: m.Cluster()}); err != nil {
			return "", err
		}
		found[m.Cluster()] = c
	}
	return cmp.Or(m.Still(), c.Still), nil
}
