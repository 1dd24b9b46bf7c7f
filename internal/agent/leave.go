package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Leave takes what an agent wrote out of a cluster's Services: finalizer, mark, condition and addresses, and counts those
// that it changed. It asks no hub: it is for clusters whose Tenant is gone for good, where nobody else would let a Service
// go. What it couldn't write is in the error; it may be called again.
//
// f need not be that agent's: of the finalizer that controllers of Services share, and of addresses in a status, it takes what has
// our mark or our class. Where f has Services without class, those of them that are being deleted are let go without a mark too.
func Leave(ctx context.Context, tenant client.Client, f service.Filter, log *slog.Logger) (left int, err error) {
	list := &v1.ServiceList{}
	if err := tenant.List(ctx, list); err != nil {
		return 0, fmt.Errorf("listing Services: %w", err)
	}
	var errs []error
	for i := range list.Items {
		s := &list.Items[i]
		held := leaves(s, f)
		if !service.Marked(s) && !service.Told(s) && !slices.Contains(s.Finalizers, held) {
			continue
		}
		if err := leave(ctx, tenant, s, held); err != nil {
			errs = append(errs, fmt.Errorf("letting go of Service %s: %w", service.Key(s), err))
			continue
		}
		left++
		log.Info("let go", "service", service.Key(s))
	}
	return left, errors.Join(errs...)
}

// leaves is the finalizer to take off a Service, empty if there is none. Of a Service without class and mark f's word isn't enough
// while it lives: it may be a cloud's.
func leaves(s *v1.Service, f service.Filter) string {
	held := f.Held(s)
	if held == service.Finalizer && !service.Marked(s) && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
		return ""
	}
	return held
}

// leave empties the status first: without its finalizer, a Service that is being deleted is gone. Where none is ours to take, the mark
// goes first: what says so is in the status.
func leave(ctx context.Context, tenant client.Client, s *v1.Service, held string) error {
	status, err := rawPatch(emptyPatch(s, service.Showed(s, held)))
	if err != nil {
		return err
	}
	hold, err := rawPatch(unholdPatch(s, held))
	if err != nil {
		return err
	}
	writes := []func() error{
		func() error { return tenant.Status().Patch(ctx, s.DeepCopy(), status, client.FieldOwner(fieldManager)) },
		func() error { return tenant.Patch(ctx, s.DeepCopy(), hold, client.FieldOwner(fieldManager)) },
	}
	if held == "" {
		slices.Reverse(writes)
	}
	for _, write := range writes {
		if err := write(); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
