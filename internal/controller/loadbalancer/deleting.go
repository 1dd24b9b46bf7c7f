package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// release gives up what a LoadBalancer holds, then lets it go.
func (r *Reconciler) release(ctx context.Context, l *clusterv1.LoadBalancer) (reconcile.Result, error) {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	r.forget(ref)
	if _, moves := l.Annotations[clusterv1.MoveAnnotation]; moves {
		moved, err := r.Keeper.Move(ctx, ref)
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(moved) > 0 {
			r.Logger.Info("moved to another hub", "loadbalancer", ref.String(), "addresses", strings.Join(moved, ","))
		}
	}
	if left, err := r.Services.Release(ctx, ref); err != nil || left != "" {
		return reconcile.Result{}, errors.Join(err, r.sayLeft(ctx, l, left))
	}
	if left, err := r.releaseProvider(ctx, l); err != nil || left != "" {
		return again(left), errors.Join(err, r.sayLeft(ctx, l, left))
	}
	if err := r.Keeper.Release(ctx, ref); err != nil {
		return reconcile.Result{}, err
	}
	if !controllerutil.ContainsFinalizer(l, clusterv1.Finalizer) {
		return reconcile.Result{}, r.sayReleased(ctx, l)
	}
	old := l.DeepCopy()
	controllerutil.RemoveFinalizer(l, clusterv1.Finalizer)
	patch := client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, l, patch, client.FieldOwner(kit.FieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("removing the finalizer of LoadBalancer %s: %w", ref, err)
	}
	r.Logger.Info("released", "loadbalancer", ref.String())
	return reconcile.Result{}, nil
}

// standsStill says that nothing may be given up now: proxies serve on what they had before the hub changed, and go back
// to the hub when the ledger grants just that. The LoadBalancer says so.
func (r *Reconciler) standsStill(ctx context.Context, l *clusterv1.LoadBalancer) (bool, error) {
	for _, e := range r.Keeper.HeldBy(ipam.Ref{Namespace: l.Namespace, Name: l.Name}) {
		frozen := r.Keeper.FrozenBy(e.Pool)
		if len(frozen) == 0 || e.Phase != ipam.Granted {
			continue
		}
		next := l.DeepCopy()
		meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
			Type: clusterv1.ConditionReady, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonHubChanged, ObservedGeneration: l.Generation,
			Message: sentence("it is being deleted, and can't be released yet. " + proof.FrozenText(frozen)),
		})
		if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
			return true, fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
		}
		return true, nil
	}
	return false, nil
}

// sayLeft says what a LoadBalancer that is being deleted waits for; "": nothing.
func (r *Reconciler) sayLeft(ctx context.Context, l *clusterv1.LoadBalancer, left string) error {
	if left == "" {
		return nil
	}
	next := l.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: clusterv1.ConditionReady, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonDeleting, ObservedGeneration: l.Generation, Message: sentence(left),
	})
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
		return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}

// sayReleased says of a LoadBalancer that others' finalizers keep that it has nothing any more.
func (r *Reconciler) sayReleased(ctx context.Context, l *clusterv1.LoadBalancer) error {
	if len(l.Finalizers) == 0 {
		return nil
	}
	next := l.DeepCopy()
	s := &next.Status
	s.Addresses, s.Ports = nil, nil
	text := sentence("it is being deleted, is served no longer and holds no address. It goes when its finalizers are taken off: " + strings.Join(l.Finalizers, ", "))
	for _, kind := range []string{clusterv1.ConditionAddressGranted, clusterv1.ConditionProgrammed, clusterv1.ConditionReady} {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonDeleting, ObservedGeneration: l.Generation, Message: text,
		})
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: clusterv1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonAsExpected, ObservedGeneration: l.Generation,
	})
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
		return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}
