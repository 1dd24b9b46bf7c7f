package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// release deletes the LoadBalancer and empties the Service's status; when the LoadBalancer is gone,
// the finalizer goes.
func (r *services) release(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer) (reconcile.Result, error) {
	if l != nil && !service.MadeFrom(l, s) {
		l = nil
	}
	var emptied, deleted error
	var both sync.WaitGroup
	if s.DeletionTimestamp == nil {
		both.Go(func() { emptied = r.empty(ctx, s) })
	}
	if l != nil {
		deleted = r.delete(ctx, l)
	}
	both.Wait()
	if err := errors.Join(emptied, deleted); err != nil {
		return reconcile.Result{}, err
	}
	if l != nil {
		return reconcile.Result{RequeueAfter: goneCheck}, nil
	}
	if _, ours := r.filter.Class(s); ours && s.DeletionTimestamp == nil {
		return reconcile.Result{}, nil // a class change: served anew
	}
	// The cache may be behind a LoadBalancer that we just made.
	l, err := r.loadBalancer(ctx, service.Name(service.Key(s)), r.hubLive)
	if err != nil {
		return reconcile.Result{}, err
	}
	if l != nil && service.MadeFrom(l, s) {
		return reconcile.Result{RequeueAfter: goneCheck}, r.delete(ctx, l)
	}
	if err := r.backends.drop(ctx, service.Key(s)); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.patch(ctx, s, "finalizer", unholdPatch(s)); err != nil {
		return reconcile.Result{}, err
	}
	r.log.Info("released", "service", service.Key(s))
	return reconcile.Result{}, nil
}

func (r *services) delete(ctx context.Context, l *clusterv1.LoadBalancer) error {
	if l.DeletionTimestamp != nil {
		return nil
	}
	err := r.hub.Delete(ctx, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}, client.Preconditions{UID: &l.UID})
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting LoadBalancer %s: %w", l.Name, err)
	}
	r.loadBalancers.forget(client.ObjectKeyFromObject(l))
	return nil
}

// empty takes our words out of a Service. Addresses in the status of a Service that is another controller's by now may be that
// one's, and are where ours were in the annotation.
func (r *services) empty(ctx context.Context, s *v1.Service) error {
	said := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed)
	_, annotated := s.Annotations[v1alpha1.AnnotationPublished]
	ingress := s.Status.LoadBalancer.Ingress
	if !annotated && service.Held(s) == service.Finalizer && (s.Spec.LoadBalancerClass == nil || said != nil) {
		ingress = nil
	}
	if said == nil && !annotated && len(ingress) == len(s.Status.LoadBalancer.Ingress) {
		return nil
	}
	return r.patchStatus(ctx, s, emptyPatch(s, ingress))
}
