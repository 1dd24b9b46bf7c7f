package service

import (
	"context"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusedBy is a refusal of the API server, which says what to do; every other error is for another try.
func refusedBy(err error, doing string, o client.Object) (*trouble, error) {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return &trouble{reason: clusterv1.ReasonServiceRefused, again: later, message: fmt.Sprintf("%s %s/%s in the hub was refused: %v", doing, o.GetNamespace(), o.GetName(), err)}, nil
	}
	return nil, fmt.Errorf("%s %T %s/%s: %w", doing, o, o.GetNamespace(), o.GetName(), err)
}

// slicesOf are those that were made for a Service of that name.
func (s *Services) slicesOf(ctx context.Context, of *corev1.Service) (map[string]*discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	if err := s.Client.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingFields{SlicesByService: of.Name}); err != nil {
		return nil, fmt.Errorf("listing the EndpointSlices of Service %s/%s: %w", of.Namespace, of.Name, err)
	}
	out := map[string]*discoveryv1.EndpointSlice{}
	for i := range list.Items {
		if o := &list.Items[i]; o.Labels[discoveryv1.LabelManagedBy] == manager {
			out[o.Name] = o
		}
	}
	return out, nil
}

// prune deletes a Service's slices but those that are kept.
func (s *Services) prune(ctx context.Context, of *corev1.Service, keep []*discoveryv1.EndpointSlice) error {
	have, err := s.slicesOf(ctx, of)
	if err != nil {
		return err
	}
	for _, k := range keep {
		delete(have, k.Name)
	}
	for _, o := range have {
		if err := s.remove(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes just this object; one that is gone is no error.
func (s *Services) remove(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	if err := s.Client.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// write makes the Service's slices be those that are wanted, and no others.
func (s *Services) write(ctx context.Context, of *corev1.Service, wanted []*discoveryv1.EndpointSlice) (*trouble, error) {
	have, err := s.slicesOf(ctx, of)
	if err != nil {
		return nil, err
	}
	for _, want := range wanted {
		old, ok := have[want.Name]
		if !ok {
			if err := s.Client.Create(ctx, want, client.FieldOwner(kit.FieldManager)); err != nil {
				if apierrors.IsAlreadyExists(err) { // the cache lags
					return nil, apierrors.NewConflict(discoveryv1.Resource("endpointslices"), want.Name, err)
				}
				return refusedBy(err, "making", want)
			}
			continue
		}
		next := old.DeepCopy()
		next.Labels, next.OwnerReferences, next.Endpoints, next.Ports = want.Labels, want.OwnerReferences, want.Endpoints, want.Ports
		if equality.Semantic.DeepEqual(old, next) {
			continue
		}
		if err := s.Client.Update(ctx, next, client.FieldOwner(kit.FieldManager)); err != nil {
			return refusedBy(err, "changing", next)
		}
	}
	return nil, s.prune(ctx, of, wanted)
}
