// Package class turns a LoadBalancerClass into its condition Accepted: whether
// anything here serves it, and whether its address pools exist.
package class

import (
	"context"
	"fmt"
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
	if _, err := kit.PatchStatus(ctx, r.Client, class, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("class %s: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
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
