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
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Leave takes what an agent wrote out of a cluster's Services: finalizer, mark, condition and addresses, and counts those
// that it changed. It asks no hub: it is for clusters whose Tenant is gone for good, where nobody else would let a Service
// go. What it couldn't write is in the error; it may be called again.
func Leave(ctx context.Context, tenant client.Client, f service.Filter, log *slog.Logger) (left int, err error) {
	list := &v1.ServiceList{}
	if err := tenant.List(ctx, list); err != nil {
		return 0, fmt.Errorf("listing Services: %w", err)
	}
	var errs []error
	for i := range list.Items {
		s := &list.Items[i]
		said := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed) != nil
		_, ours := f.Class(s)
		own := slices.Contains(s.Finalizers, service.OwnFinalizer)
		if !service.Marked(s) && !said && !own && !(ours && service.Finalized(s)) {
			continue
		}
		if err := leave(ctx, tenant, s); err != nil {
			errs = append(errs, fmt.Errorf("letting go of Service %s: %w", service.Key(s), err))
			continue
		}
		left++
		log.Info("let go", "service", service.Key(s))
	}
	return left, errors.Join(errs...)
}

// leave empties the status first: without its finalizer, a Service that is being deleted is gone.
func leave(ctx context.Context, tenant client.Client, s *v1.Service) error {
	ingress := s.Status.LoadBalancer.Ingress
	if service.Held(s) == service.Finalizer {
		ingress = nil
	}
	status, err := rawPatch(emptyPatch(s, ingress))
	if err != nil {
		return err
	}
	hold, err := rawPatch(unholdPatch(s))
	if err != nil {
		return err
	}
	if err := tenant.Status().Patch(ctx, s.DeepCopy(), status, client.FieldOwner(fieldManager)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err := tenant.Patch(ctx, s.DeepCopy(), hold, client.FieldOwner(fieldManager)); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
