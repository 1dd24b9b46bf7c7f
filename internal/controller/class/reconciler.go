// Package class turns a LoadBalancerClass into its condition Accepted: whether
// anything here serves it, and whether its address pools exist. It holds the
// deletion of a class while LoadBalancers of that class exist, and says so:
// without the class they would end at once.
package class

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/lb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Reconciler reconciles LoadBalancerClasses.
type Reconciler struct{ Client client.Client }

// Reconcile writes one class's status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	class := &v1alpha1.LoadBalancerClass{}
	if err := r.Client.Get(ctx, req.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	held := ""
	if class.DeletionTimestamp != nil {
		users, err := r.users(ctx, class.Name)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(users) == 0 {
			return reconcile.Result{}, kit.LetGo(ctx, r.Client, class, v1alpha1.FinalizerInUse)
		}
		held = fmt.Sprintf("LoadBalancers of this class are served on: %s. Delete their Services or give them another class, and the class goes with the last; to end them all at once, take the finalizer %s away.",
			kit.Some(users), v1alpha1.FinalizerInUse)
	}
	if err := kit.Guard(ctx, r.Client, class, v1alpha1.FinalizerInUse); err != nil {
		return reconcile.Result{}, err
	}
	var missing []string
	for _, name := range class.Spec.AddressPools {
		switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &v1alpha1.AddressPool{}); {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("reading address pool %s: %w", name, err)
		}
	}
	next := class.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, accepted(class, missing))
	kit.SayHeld(&next.Status.Conditions, class.Generation, held)
	if _, err := kit.PatchStatus(ctx, r.Client, class, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("class %s: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
}

// users names the LoadBalancers of a class, sorted.
func (r *Reconciler) users(ctx context.Context, class string) ([]string, error) {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the LoadBalancers of class %s: %w", class, err)
	}
	var out []string
	for i := range list.Items {
		if l := &list.Items[i]; l.Spec.ClassName == class {
			out = append(out, l.Namespace+"/"+l.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func accepted(class *v1alpha1.LoadBalancerClass, missing []string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, ObservedGeneration: class.Generation}
	for _, p := range build.ValidateClass(class) {
		if p.Effect == lb.Refused {
			c.Reason, c.Message = p.Reason, p.Message
			return c
		}
	}
	switch {
	case class.Spec.Service != nil, class.Spec.InfrastructureTemplate != nil, class.Spec.HooksOnly != nil:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReasonAccepted
		c.Message = without(class)
	case len(class.Spec.AddressPools) == 0:
		c.Reason, c.Message = clusterv1.ReasonPoolNotFound, "The class names no address pools: add some to addressPools."
	case len(missing) == len(class.Spec.AddressPools):
		c.Reason, c.Message = clusterv1.ReasonPoolNotFound, fmt.Sprintf("No address pool of the class exists: create %s, or mend addressPools.", strings.Join(missing, ", "))
	case len(missing) > 0:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReasonAccepted
		c.Message = fmt.Sprintf("Address pools are missing: create %s, or mend addressPools.", strings.Join(missing, ", "))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReasonAccepted
	}
	return c
}

// without says what of a class is not honoured; "": all is.
func without(class *v1alpha1.LoadBalancerClass) string {
	var out []string
	for _, p := range build.ValidateClass(class) {
		if p.Effect == lb.ServedWithout {
			out = append(out, p.Field+": "+p.Message+".")
		}
	}
	return strings.Join(out, " ")
}
