package agent

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/agent/service"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// release deletes the hub's LoadBalancer, then its TargetGroups, then lets go of the one here. One that moves to another management
// cluster is served on: that one's agent goes on with what the hub has.
func (r *mirrors) release(ctx context.Context, l, have *clusterv1.LoadBalancer) (reconcile.Result, error) {
	of := management.Key(l)
	if !controllerutil.ContainsFinalizer(l, clusterv1.MirrorFinalizer) {
		return reconcile.Result{}, nil
	}
	if _, moves := l.Annotations[clusterv1.MoveAnnotation]; !moves {
		if have == nil { // the cache may be behind one that was just made
			var err error
			if have, err = r.loadBalancer(ctx, of, r.hubLive); err != nil {
				return reconcile.Result{}, err
			}
		}
		if have != nil {
			if origin, ok := management.Origin(have); ok && origin == of {
				return reconcile.Result{RequeueAfter: goneCheck}, r.delete(ctx, have)
			}
		}
		if err := r.dropGroups(ctx, of); err != nil {
			return reconcile.Result{}, err
		}
	}
	next := l.DeepCopy()
	controllerutil.RemoveFinalizer(next, clusterv1.MirrorFinalizer)
	delete(next.Annotations, clusterv1.HubAnnotation)
	if err := r.writeHere(ctx, l, next, false); err != nil {
		return reconcile.Result{}, err
	}
	r.log.Info("released", "loadbalancer", of)
	return reconcile.Result{}, nil
}

func (r *mirrors) delete(ctx context.Context, have *clusterv1.LoadBalancer) error {
	if have.DeletionTimestamp != nil {
		return nil
	}
	err := r.hub.Delete(ctx, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: have.Namespace, Name: have.Name}}, client.Preconditions{UID: &have.UID})
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting LoadBalancer %s of the hub: %w", have.Name, err)
	}
	r.loadBalancers.forget(client.ObjectKeyFromObject(have))
	return nil
}

// orphan deletes what the hub has of a LoadBalancer that is gone, at once if that was seen, else after a day.
func (r *mirrors) orphan(ctx context.Context, of types.NamespacedName, have *clusterv1.LoadBalancer) (reconcile.Result, error) {
	absent := func() (bool, error) {
		err := r.tenantLive.Get(ctx, of, &clusterv1.LoadBalancer{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("asking for LoadBalancer: %w", err)
		}
		return err != nil, nil
	}
	if have == nil {
		gone, err := absent()
		if err != nil || !gone {
			return reconcile.Result{}, err
		}
		if have, err = r.loadBalancer(ctx, of, r.hubLive); err != nil || have != nil {
			return reconcile.Result{}, err // the cache is behind, and wakes us
		}
		return reconcile.Result{}, r.dropGroups(ctx, of)
	}
	if have.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	origin, made := management.Origin(have)
	e := service.Evidence{Made: made && origin == of, Listed: true, Deleted: r.gone.has(of), HeldUntil: have.Annotations[v1alpha1.AnnotationHeldUntil], Now: time.Now()}
	if e.Made {
		var err error
		if e.Absent, err = absent(); err != nil {
			return reconcile.Result{}, err
		}
	}
	switch keep, until := service.Orphan(e); {
	case !until.IsZero():
		return reconcile.Result{RequeueAfter: min(time.Until(until), heldLook)}, r.heldFor(ctx, of, have, until)
	case keep != "":
		r.log.Debug("load balancer kept", "loadbalancer", have.Name, "why", keep)
		return reconcile.Result{}, nil
	}
	r.log.Info("deleting a load balancer of the hub that is gone here", "loadbalancer", of, "inHub", have.Name)
	return reconcile.Result{}, r.delete(ctx, have)
}

// heldFor says on the hub's LoadBalancer until when it is held, and tells it once for all of them.
func (r *mirrors) heldFor(ctx context.Context, of types.NamespacedName, have *clusterv1.LoadBalancer, until time.Time) error {
	if _, err := time.Parse(time.RFC3339, have.Annotations[v1alpha1.AnnotationHeldUntil]); err == nil {
		return nil
	}
	text := until.UTC().Format(time.RFC3339)
	if err := r.annotate(ctx, have, text); err != nil {
		return err
	}
	r.log.Warn("load balancer held, for it is missing here and nobody was seen to delete it", "loadbalancer", of, "inHub", have.Name, "until", text)
	r.toldHeld.Do(func() {
		r.events.tell(happening{about: wholeCluster(r.clusterUID), name: fmt.Sprintf("fairlead-agent.mirrors.%x", until.Unix()), warning: true, reason: service.ReasonLoadBalancersMissing,
			note: fmt.Sprintf("LoadBalancer %s, and perhaps others, are missing and nobody was seen to delete them: the hub serves them on until %s. The Tenant's condition Ready in the hub names all. "+
				"Create a LoadBalancer again to keep what it had; create and delete it to give that up at once", of, text)})
	})
	return nil
}

func (r *mirrors) annotate(ctx context.Context, have *clusterv1.LoadBalancer, heldUntil any) error {
	p, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": have.UID, "annotations": map[string]any{v1alpha1.AnnotationHeldUntil: heldUntil}}})
	if err != nil {
		return err
	}
	err = r.hub.Patch(ctx, &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: have.Namespace, Name: have.Name}}, p, client.FieldOwner(fieldManager))
	r.metrics.wrote(hubCluster, "loadbalancer", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating LoadBalancer %s of the hub: %w", have.Name, err)
	}
	return nil
}
