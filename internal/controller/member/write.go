package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write brings Machines and TargetGroups to what the plan says, in the order that is safe wherever it stops. What fails holds
// up nobody else: a Machine whose hook couldn't be written isn't placed, for a plan places only those that were read with one,
// and each hook that goes may go as things stood before this round. The error is all that failed, joined.
func (r *Reconciler) write(ctx context.Context, v *view, plan *machines.Plan) error {
	if v.Shared.Frozen != "" {
		return nil
	}
	var failed []error
	for i := range v.Machines {
		if m := &v.Machines[i]; v.wantsLabel(*m) {
			failed = append(failed, r.label(ctx, v, m))
		}
	}
	for i := range plan.Members {
		if m := &plan.Members[i]; m.Hook && !m.Seen.Hook {
			failed = append(failed, r.annotate(ctx, v, m))
		}
	}
	failed = append(failed, r.place(ctx, v, plan))
	for i := range plan.Members {
		if m := &plan.Members[i]; !m.Hook || m.Seen.Hook {
			failed = append(failed, r.annotate(ctx, v, m))
		}
	}
	return errors.Join(failed...)
}

// label gives a Machine of the control plane the label that names its LoadBalancer, for the default selector.
func (r *Reconciler) label(ctx context.Context, v *view, m *machines.Machine) error {
	return r.patch(ctx, v, m.UID, func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		labels[rules.NameLabel] = v.LoadBalancer.Name
		o.SetLabels(labels)
	})
}

// annotate writes a Machine's hook and state, or a Node's state. One that is gone, or was written since, is looked at anew.
func (r *Reconciler) annotate(ctx context.Context, v *view, m *machines.Member) error {
	want := m.Annotations(v.LoadBalancer)
	if m.Machine.Still() != "" || maps.Equal(want, m.Machine.Annotations) {
		return nil
	}
	if err := r.patch(ctx, v, m.Machine.UID, func(o client.Object) { reannotate(o, m.Machine.Annotations, want) }); err != nil {
		return err
	}
	if m.Seen.Hook && !m.Hook {
		r.Logger.Info("hook lifted", "loadbalancer", client.ObjectKeyFromObject(v.LoadBalancer).String(), "machine", m.Machine.Name, "state", string(m.State))
		if m.Reason == rules.ReasonMaxWaitPassed && r.Events != nil {
			r.Events.Event(v.LoadBalancer, "Warning", m.Reason, fmt.Sprintf("Machine %s: %s.", m.Machine.Name, m.Message))
		}
	}
	return nil
}

// patch writes to one of a view's objects; a later write of this round begins where it ended.
func (r *Reconciler) patch(ctx context.Context, v *view, uid string, change func(client.Object)) error {
	next, err := r.patchOne(ctx, v.Kind, v.objects[uid], change)
	if err == nil {
		v.objects[uid] = next
	}
	return err
}

// patchOne writes what change changes of an object's metadata, if it is still as it was read, and returns what it is then. One that is
// gone is no error.
func (r *Reconciler) patchOne(ctx context.Context, kind rules.Kind, was client.Object, change func(client.Object)) (client.Object, error) {
	next := was.DeepCopyObject().(client.Object)
	change(next)
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return was, nil
	case err != nil:
		return nil, fmt.Errorf("writing %s %s: %w", kind, nameOf(was), err)
	}
	return next, nil
}

// nameOf an object as messages have it, with its namespace where it has one.
func nameOf(o client.Object) string {
	return strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// place writes the TargetGroups, each by itself.
func (r *Reconciler) place(ctx context.Context, v *view, plan *machines.Plan) error {
	var failed []error
	for i, targets := range plan.Groups {
		if i >= len(v.Groups) || v.Groups[i].Object == nil {
			failed = append(failed, r.create(ctx, v, i, targets))
			continue
		}
		g := v.Groups[i].Object
		next := g.DeepCopy()
		note(next, v)
		if maps.Equal(g.Labels, next.Labels) && machines.SameTargets(g.Spec.Targets, targets) {
			continue
		}
		next.Spec.Targets = targets
		// A patch, for the cache leaves annotations out.
		if err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
			failed = append(failed, fmt.Errorf("writing TargetGroup %s/%s: %w", g.Namespace, g.Name, err))
		}
	}
	for i := len(plan.Groups); i < len(v.Groups); i++ {
		if g := v.Groups[i].Object; g != nil {
			failed = append(failed, r.drop(ctx, g))
		}
	}
	return errors.Join(failed...)
}

// note has a TargetGroup say what its targets are made from, and whose Machines they are: where none is there to tell, whether that
// Cluster is paused counts.
func note(g *v1alpha1.TargetGroup, v *view) {
	g.Labels[v1alpha1.LabelGeneratedFrom] = string(v.Kind)
	switch {
	case v.Kind == rules.Nodes:
		delete(g.Labels, v1alpha1.LabelCluster)
	case v.Cluster != "":
		g.Labels[v1alpha1.LabelCluster] = v.Cluster
	}
}

func (r *Reconciler) create(ctx context.Context, v *view, number int, targets []v1alpha1.Target) error {
	l := v.LoadBalancer
	g := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace, Name: machines.GroupName(l.Name, number),
			Labels: map[string]string{v1alpha1.LabelFor: l.Name},
		},
		Spec: v1alpha1.TargetGroupSpec{Targets: targets},
	}
	note(g, v)
	err := r.Client.Create(ctx, g, client.FieldOwner(kit.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return r.taken(ctx, g)
	}
	if err != nil {
		return fmt.Errorf("creating TargetGroup %s/%s: %w", g.Namespace, g.Name, err)
	}
	return nil
}

// taken is for a TargetGroup whose name there is already: a conflict if the cache lags, else somebody's.
func (r *Reconciler) taken(ctx context.Context, g *v1alpha1.TargetGroup) error {
	other := &v1alpha1.TargetGroup{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(g), other); err != nil {
		return fmt.Errorf("reading TargetGroup %s/%s: %w", g.Namespace, g.Name, err)
	}
	if generated(other) {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("targetgroups").GroupResource(), g.Name, errors.New("it was made a moment ago"))
	}
	return fmt.Errorf("TargetGroup %s/%s isn't generated, and has the name that one for %ss needs: rename it", g.Namespace, g.Name, g.Labels[v1alpha1.LabelGeneratedFrom])
}

// drop deletes a TargetGroup, if it is still as it was read.
func (r *Reconciler) drop(ctx context.Context, g *v1alpha1.TargetGroup) error {
	if err := r.Client.Delete(ctx, g, client.Preconditions{UID: &g.UID, ResourceVersion: &g.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting TargetGroup %s/%s: %w", g.Namespace, g.Name, err)
	}
	return nil
}
