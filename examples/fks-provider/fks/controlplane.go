package fks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/fks-provider/api/controlplane"
	"fairlead.dev/fairlead/examples/fks-provider/cloud"
	"fairlead.dev/fairlead/provider/managed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// controlPlanes reconciles FKSControlPlanes.
type controlPlanes struct{ hub }

// Reconcile has a control plane be there as wanted, and says how far that is.
func (r *controlPlanes) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &controlplane.FKSControlPlane{}
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
func (r *controlPlanes) see(ctx context.Context, o *controlplane.FKSControlPlane) error {
	say := func(status metav1.ConditionStatus, reason, message string) {
		set(&o.Status.Conditions, o.Generation, controlplane.ConditionAvailable, status, reason, message)
	}
	o.Status.ExternalManagedControlPlane = true
	cluster, err := managed.Of(ctx, r.live, r.kinds, o) // step 1
	if err != nil {
		return err
	}
	if why := managed.Holds(o, cluster); why != "" {
		set(&o.Status.Conditions, o.Generation, controlplane.ConditionPaused, metav1.ConditionTrue, controlplane.ReasonPaused, why)
		return nil
	}
	set(&o.Status.Conditions, o.Generation, controlplane.ConditionPaused, metav1.ConditionFalse, controlplane.ReasonNotPaused, "")
	if o.DeletionTimestamp != nil {
		say(metav1.ConditionFalse, controlplane.ReasonDeleting, "It is being deleted.")
		return r.delete(ctx, o)
	}
	if cluster == nil {
		say(metav1.ConditionFalse, controlplane.ReasonWaitingForCluster, "No Cluster owns it: name it in spec.controlPlaneRef of one.")
		return nil
	}
	its, has := cluster.Endpoint()
	if o.Spec.ID == "" { // step 2; what is there already goes on
		switch {
		case !cluster.InfrastructureProvisioned():
			say(metav1.ConditionFalse, controlplane.ReasonWaitingForInfrastructure, fmt.Sprintf("The infrastructure of Cluster %s isn't provisioned yet.", cluster.Name()))
			return nil
		case o.Spec.EndpointFrom == controlplane.FromCluster && !has:
			say(metav1.ConditionFalse, controlplane.ReasonWaitingForEndpoint, fmt.Sprintf("Cluster %s has no endpoint yet, and spec.endpointFrom is Cluster: make a ClusterEndpoint.", cluster.Name()))
			return nil
		}
	}
	if err := patch(ctx, r.client, o, func(o *controlplane.FKSControlPlane) { controllerutil.AddFinalizer(o, Finalizer) }); err != nil {
		return err
	}
	made, err := bounded(ctx, r.Timeout, func(ctx context.Context) (cloud.ControlPlane, error) {
		return r.Service.EnsureControlPlane(ctx, o.Spec.ID, string(o.UID), specOf(o, its))
	})
	if errors.Is(err, cloud.ErrNotFound) {
		say(metav1.ConditionFalse, controlplane.ReasonServiceFailed, fmt.Sprintf("Control plane %s isn't there any more: take spec.id away to have a new, empty one made.", o.Spec.ID))
		return nil
	}
	if err != nil {
		say(metav1.ConditionFalse, controlplane.ReasonServiceFailed, err.Error()+": it is tried again.")
		return fmt.Errorf("making the control plane: %w", err)
	}
	if err := patch(ctx, r.client, o, func(o *controlplane.FKSControlPlane) { o.Spec.ID = made.ID }); err != nil { // step 3
		return err
	}
	return r.tell(ctx, o, cluster, made, its)
}

// specOf is what the service is to run.
func specOf(o *controlplane.FKSControlPlane, its clusterv1.Endpoint) cloud.Spec {
	s := cloud.Spec{Version: o.Spec.Version}
	at := o.Spec.Address
	if o.Spec.EndpointFrom == controlplane.FromCluster && its.Host != "" {
		s.Names = []string{its.Host}
		if at == nil {
			at = &its
		}
	}
	if at == nil {
		return s
	}
	if a, err := netip.ParseAddr(at.Host); err == nil {
		s.Endpoint = netip.AddrPortFrom(a, uint16(at.Port))
	} else { // a name is somebody's alias for what the service chooses
		s.Names = append(s.Names, at.Host)
	}
	return s
}

// tell publishes the endpoint, if it is the service's, and the kubeconfig, and says that the control plane is there.
func (r *controlPlanes) tell(ctx context.Context, o *controlplane.FKSControlPlane, cluster *managed.Cluster, made cloud.ControlPlane, its clusterv1.Endpoint) error {
	say := func(status metav1.ConditionStatus, reason, message string) {
		set(&o.Status.Conditions, o.Generation, controlplane.ConditionAvailable, status, reason, message)
	}
	e := clusterv1.Endpoint{Host: made.Endpoint.Addr().String(), Port: int32(made.Endpoint.Port())}
	switch {
	case o.Spec.EndpointFrom != controlplane.FromCluster: // step 4
		err := managed.Publish(ctx, r.client, o, cluster.Name(), e)
		var taken *managed.Taken
		if errors.As(err, &taken) {
			say(metav1.ConditionFalse, controlplane.ReasonEndpointTaken, err.Error()+".")
			return nil
		}
		if err != nil {
			return err
		}
	case its.Host != "":
		e = its
	}
	o.Status.Endpoint, o.Status.Version = &e, made.Version
	taken, err := r.kubeconfig(ctx, o, cluster.Name(), made, e)
	if err != nil {
		return err
	}
	if taken != "" {
		say(metav1.ConditionFalse, controlplane.ReasonKubeconfigTaken, taken)
		return nil
	}
	if !made.Running {
		say(metav1.ConditionFalse, controlplane.ReasonPending, "The service hasn't started it yet.")
		return nil
	}
	o.Status.Initialization = &controlplane.Initialization{ControlPlaneInitialized: true} // step 5
	o.Status.Initialized, o.Status.Ready = true, true
	say(metav1.ConditionTrue, controlplane.ReasonAvailable, "")
	return nil
}

func (r *controlPlanes) delete(ctx context.Context, o *controlplane.FKSControlPlane) error {
	if !controllerutil.ContainsFinalizer(o, Finalizer) {
		return nil
	}
	_, err := bounded(ctx, r.Timeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.Service.DeleteControlPlane(ctx, o.Spec.ID, string(o.UID))
	})
	if err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return fmt.Errorf("deleting the control plane: %w", err)
	}
	return letGo(ctx, r.client, o)
}
