package agent

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// heldLook is between two looks at a LoadBalancer that is held.
const heldLook = 10 * time.Minute

// orphan deletes a LoadBalancer whose Service is gone, at once if that was seen, else after a day.
func (r *services) orphan(ctx context.Context, key types.NamespacedName, l *clusterv1.LoadBalancer) (reconcile.Result, error) {
	if l == nil {
		return reconcile.Result{}, r.orphanGroup(ctx, key)
	}
	if l.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	origin, made := service.Origin(l)
	e := service.Evidence{
		Made: made && origin == key, Listed: true, // a controller starts when its caches are complete
		Deleted: r.gone.has(key), HeldUntil: l.Annotations[v1alpha1.AnnotationHeldUntil], Now: time.Now(),
	}
	if e.Made {
		err := r.tenantLive.Get(ctx, key, &v1.Service{})
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("asking for Service: %w", err)
		}
		e.Absent = apierrors.IsNotFound(err)
	}
	switch keep, until := service.Orphan(e); {
	case !until.IsZero():
		return reconcile.Result{RequeueAfter: min(time.Until(until), heldLook)}, r.hold(ctx, key, l, until)
	case keep != "":
		r.log.Debug("load balancer kept", "loadbalancer", l.Name, "why", keep)
		return reconcile.Result{}, nil
	}
	r.log.Info("deleting a load balancer whose service is gone", "service", key, "loadbalancer", l.Name)
	return reconcile.Result{}, r.delete(ctx, l)
}

// orphanGroup deletes the TargetGroup of a Service that is gone, once the LoadBalancer is.
func (r *services) orphanGroup(ctx context.Context, key types.NamespacedName) error {
	g, err := r.backends.group(ctx, key, r.hub)
	if err != nil || g == nil {
		return err
	}
	if err := r.tenantLive.Get(ctx, key, &v1.Service{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("asking for Service: %w", err)
		}
		return nil
	}
	// The cache may not show a LoadBalancer that is held.
	if l, err := r.loadBalancer(ctx, service.Name(key), r.hubLive); err != nil || l != nil {
		return err
	}
	r.log.Info("deleting a target group whose service is gone", "service", key, "targetgroup", g.Name)
	return r.backends.drop(ctx, key)
}

// hold says on a LoadBalancer until when it is held, and tells it once for all of them.
func (r *services) hold(ctx context.Context, key types.NamespacedName, l *clusterv1.LoadBalancer, until time.Time) error {
	text := until.UTC().Format(time.RFC3339)
	if l.Annotations[v1alpha1.AnnotationHeldUntil] == text {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, l.Annotations[v1alpha1.AnnotationHeldUntil]); err == nil {
		return nil // the same, written otherwise
	}
	if err := r.annotate(ctx, l, text); err != nil {
		return err
	}
	r.log.Warn("load balancer held, for its service is missing and nobody was seen to delete it", "service", key, "loadbalancer", l.Name, "until", text)
	r.toldHeld.Do(func() {
		r.events.tell(happening{about: wholeCluster(r.clusterUID), name: fmt.Sprintf("fairlead-agent.held.%x", until.Unix()), warning: true, reason: service.ReasonServicesMissing,
			note: fmt.Sprintf("Service %s, and perhaps others, are missing and nobody was seen to delete them: what they had is served on until %s. The Tenant's condition Ready in the hub names all. "+
				"Create a Service again to keep what it had; create and delete it to give that up at once", key, text)})
	})
	return nil
}

// unhold takes that word from a LoadBalancer whose Service is back.
func (r *services) unhold(ctx context.Context, l *clusterv1.LoadBalancer) error {
	if l == nil || l.Annotations[v1alpha1.AnnotationHeldUntil] == "" {
		return nil
	}
	return r.annotate(ctx, l, nil)
}

func (r *services) annotate(ctx context.Context, l *clusterv1.LoadBalancer, heldUntil any) error {
	p, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": l.UID, "annotations": map[string]any{v1alpha1.AnnotationHeldUntil: heldUntil}}})
	if err != nil {
		return err
	}
	err = r.hub.Patch(ctx, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}, p, client.FieldOwner(fieldManager))
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating LoadBalancer %s: %w", l.Name, err)
	}
	return nil
}
