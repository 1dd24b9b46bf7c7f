package fks

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/infrastructure"
	"fairlead.dev/fairlead/examples/fks-provider/cloud"
	"fairlead.dev/fairlead/provider/managed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// clusters reconciles FKSClusters.
type clusters struct{ hub }

// Reconcile has an FKSCluster's pieces be there, and says how far that is.
func (r *clusters) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &infrastructure.FKSCluster{}
	if err := r.client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := o.DeepCopy()
	failed := r.see(ctx, o)
	if o.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(o, Finalizer) {
		return reconcile.Result{}, failed
	}
	before.ObjectMeta, before.Spec = o.ObjectMeta, o.Spec
	if err := errors.Join(failed, writeStatus(ctx, r.client, before, o)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.Resync}, nil
}

// see takes the steps that can be taken; what came of them is in the object. An error is tried again.
func (r *clusters) see(ctx context.Context, o *infrastructure.FKSCluster) error {
	say := func(status metav1.ConditionStatus, reason, message string) {
		set(&o.Status.Conditions, o.Generation, infrastructure.ConditionReady, status, reason, message)
	}
	cluster, err := managed.Of(ctx, r.live, r.kinds, o) // step 1
	if err != nil {
		return err
	}
	if why := managed.Holds(o, cluster); why != "" {
		set(&o.Status.Conditions, o.Generation, infrastructure.ConditionPaused, metav1.ConditionTrue, infrastructure.ReasonPaused, why)
		return nil
	}
	set(&o.Status.Conditions, o.Generation, infrastructure.ConditionPaused, metav1.ConditionFalse, infrastructure.ReasonNotPaused, "")
	if o.DeletionTimestamp != nil {
		say(metav1.ConditionFalse, infrastructure.ReasonDeleting, "What was made is being deleted.")
		return r.delete(ctx, o)
	}
	if cluster == nil {
		say(metav1.ConditionFalse, infrastructure.ReasonWaitingForCluster, "No Cluster owns it: name it in spec.infrastructureRef of one.")
		return nil
	}
	if err := patch(ctx, r.client, o, func(o *infrastructure.FKSCluster) { controllerutil.AddFinalizer(o, Finalizer) }); err != nil {
		return err
	}
	bastion, err := r.piece(ctx, o, "bastion", func(o *infrastructure.FKSCluster) *infrastructure.Piece { return o.Spec.Bastion })
	if err == nil && bastion != nil {
		o.Status.Bastion = bastion.Endpoint.Addr().String()
	}
	var endpoint *cloud.Piece
	if err == nil {
		endpoint, err = r.piece(ctx, o, "endpoint", func(o *infrastructure.FKSCluster) *infrastructure.Piece { return o.Spec.Endpoint })
	}
	if err != nil {
		say(metav1.ConditionFalse, infrastructure.ReasonCloudFailed, err.Error()+": it is tried again.")
		return err
	}
	if endpoint != nil { // step 4; without it the endpoint is the control plane's to make, and to publish
		e := clusterv1.Endpoint{Host: endpoint.Endpoint.Addr().String(), Port: int32(endpoint.Endpoint.Port())}
		err := managed.Publish(ctx, r.client, o, cluster.Name(), e)
		var taken *managed.Taken
		if errors.As(err, &taken) {
			say(metav1.ConditionFalse, infrastructure.ReasonEndpointTaken, err.Error()+".")
			return nil
		}
		if err != nil {
			return err
		}
	}
	o.Status.Initialization, o.Status.Ready = &infrastructure.Initialization{Provisioned: true}, true // step 5
	say(metav1.ConditionTrue, infrastructure.ReasonReady, "")
	return nil
}

// piece has one be there, if it is wanted, and notes its ID.
func (r *clusters) piece(ctx context.Context, o *infrastructure.FKSCluster, what string, of func(*infrastructure.FKSCluster) *infrastructure.Piece) (*cloud.Piece, error) {
	wanted := of(o)
	if wanted == nil {
		return nil, nil
	}
	p, err := bounded(ctx, r.Timeout, func(ctx context.Context) (cloud.Piece, error) {
		return r.Service.EnsurePiece(ctx, wanted.ID, pieceOwner(o, what))
	})
	if err != nil {
		return nil, fmt.Errorf("making the %s: %w", what, err)
	}
	return &p, patch(ctx, r.client, o, func(o *infrastructure.FKSCluster) { of(o).ID = p.ID }) // step 3
}

func pieceOwner(o *infrastructure.FKSCluster, what string) string { return string(o.UID) + "/" + what }

func (r *clusters) delete(ctx context.Context, o *infrastructure.FKSCluster) error {
	if !controllerutil.ContainsFinalizer(o, Finalizer) {
		return nil
	}
	for what, p := range map[string]*infrastructure.Piece{"bastion": o.Spec.Bastion, "endpoint": o.Spec.Endpoint} {
		if p == nil {
			continue
		}
		_, err := bounded(ctx, r.Timeout, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, r.Service.DeletePiece(ctx, p.ID, pieceOwner(o, what))
		})
		if err != nil && !errors.Is(err, cloud.ErrNotFound) {
			return fmt.Errorf("deleting the %s: %w", what, err)
		}
	}
	return letGo(ctx, r.client, o)
}
