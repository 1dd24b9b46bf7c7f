package kit

import (
	"context"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Guard puts a finalizer on an object, so that a deletion waits for LetGo. It writes once an object.
func Guard(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	if o.GetDeletionTimestamp() != nil || controllerutil.ContainsFinalizer(o, finalizer) {
		return nil
	}
	return finalizers(ctx, c, o, func() { controllerutil.AddFinalizer(o, finalizer) })
}

// LetGo takes it off. An object that is gone is no error.
func LetGo(ctx context.Context, c client.Client, o client.Object, finalizer string) error {
	if !controllerutil.ContainsFinalizer(o, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(finalizers(ctx, c, o, func() { controllerutil.RemoveFinalizer(o, finalizer) }))
}

func finalizers(ctx context.Context, c client.Client, o client.Object, change func()) error {
	old, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("copying %T %s", o, o.GetName())
	}
	change()
	if err := c.Patch(ctx, o, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("writing finalizers of %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// SayHeld sets or takes away the condition that says what holds a deletion; message "" : nothing does.
func SayHeld(conditions *[]metav1.Condition, generation int64, message string) {
	if message == "" {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionDeletionHeld)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: v1alpha1.ConditionDeletionHeld, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInUse, Message: message, ObservedGeneration: generation,
	})
}

// EventFenced is the reason of the event about a proxy that was fenced.
const EventFenced = "Fenced"

// Fence says that a proxy can't serve, unless somebody has said so already; it returns whether it wrote.
func Fence(ctx context.Context, c client.Client, p *v1alpha1.Proxy, f v1alpha1.Fence) (bool, error) {
	if p.Spec.Fenced != nil {
		return false, nil
	}
	old := p.DeepCopy()
	p.Spec.Fenced = &f
	if err := c.Patch(ctx, p, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager)); err != nil {
		return false, fmt.Errorf("fencing proxy %s: %w", p.Name, err)
	}
	return true, nil
}

// Some names at most three of many.
func Some(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
