package member

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	return r.patch(ctx, v.objects[m.UID], func(o *unstructured.Unstructured) {
		labels := maps.Clone(o.GetLabels())
		labels[rules.NameLabel] = v.LoadBalancer.Name
		o.SetLabels(labels)
	})
}

// annotate writes a Machine's hook and state. One that is gone, or was written since, is looked at anew.
func (r *Reconciler) annotate(ctx context.Context, v *view, m *machines.Member) error {
	want := m.Annotations(v.LoadBalancer)
	if m.Machine.Still() != "" || maps.Equal(want, m.Machine.Annotations) {
		return nil
	}
	if err := r.patch(ctx, v.objects[m.Machine.UID], func(o *unstructured.Unstructured) { o.SetAnnotations(want) }); err != nil {
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

// patch writes what change changes of a Machine's metadata, if it is still as it was read. One that is gone is no error.
func (r *Reconciler) patch(ctx context.Context, was *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	next := was.DeepCopy()
	change(next)
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing Machine %s/%s: %w", was.GetNamespace(), was.GetName(), err)
	}
	if err == nil {
		*was = *next // a later write of this round begins there
	}
	return nil
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
		note(next, v.Cluster)
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

// note has a TargetGroup say whose Machines its targets are: where none is there to tell, whether that Cluster is paused counts.
func note(g *v1alpha1.TargetGroup, cluster string) {
	if cluster != "" {
		g.Labels[v1alpha1.LabelCluster] = cluster
	}
}

func (r *Reconciler) create(ctx context.Context, v *view, number int, targets []v1alpha1.Target) error {
	l := v.LoadBalancer
	g := &v1alpha1.TargetGroup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace, Name: machines.GroupName(l.Name, number),
			Labels: map[string]string{v1alpha1.LabelFor: l.Name, v1alpha1.LabelGeneratedFrom: FromMachines},
		},
		Spec: v1alpha1.TargetGroupSpec{Targets: targets},
	}
	note(g, v.Cluster)
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
	return fmt.Errorf("TargetGroup %s/%s isn't generated, and has the name that one for Machines needs: rename it", g.Namespace, g.Name)
}

// drop deletes a TargetGroup, if it is still as it was read.
func (r *Reconciler) drop(ctx context.Context, g *v1alpha1.TargetGroup) error {
	if err := r.Client.Delete(ctx, g, client.Preconditions{UID: &g.UID, ResourceVersion: &g.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting TargetGroup %s/%s: %w", g.Namespace, g.Name, err)
	}
	return nil
}
