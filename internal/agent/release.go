package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	held := r.filter.Held(s)
	_, ours := r.filter.Class(s)
	anew := ours && s.DeletionTimestamp == nil // a class change
	// What says that a finalizer beside our mark isn't ours goes after the mark.
	last := !anew && (held == "" && service.Marked(s) || held == service.OwnFinalizer && service.Finalized(s))
	// What is being deleted is gone without our finalizer, or stays for another controller to let go of.
	if !last && (s.DeletionTimestamp == nil || slices.ContainsFunc(s.Finalizers, func(x string) bool { return x != held })) {
		both.Go(func() { emptied = r.empty(ctx, s, held) })
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
	if anew {
		return reconcile.Result{}, nil
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
	if err := r.patch(ctx, s, "finalizer", unholdPatch(s, held)); err != nil {
		return reconcile.Result{}, err
	}
	if last {
		if err := r.empty(ctx, s, held); err != nil {
			return reconcile.Result{}, err
		}
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

// empty takes our words out of a Service.
func (r *services) empty(ctx context.Context, s *v1.Service, held string) error {
	_, annotated := s.Annotations[v1alpha1.AnnotationPublished]
	ours := service.Showed(s, held)
	if !service.Told(s) && !annotated && !(ours && len(s.Status.LoadBalancer.Ingress) > 0) {
		return nil
	}
	return r.patchStatus(ctx, s, emptyPatch(s, ours))
}
