package unmanagedcluster

import (
	"context"
	"fmt"
	"time"

	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ManagedBy is Cluster API's annotation on infrastructure of which somebody else writes the status.
const ManagedBy = "cluster.x-k8s.io/managed-by"

// lookAgain is when the control plane that a Cluster without an endpoint refers to is looked at again: nobody watches it.
const lookAgain = 5 * time.Second

// Options of a Reconciler.
type Options struct {
	// Client reads the cache and writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Kinds says in which version the hub serves a kind, if at all.
	Kinds meta.RESTMapper
}

// Reconciler reconciles UnmanagedClusters.
type Reconciler struct{ Options }

// New returns a reconciler.
func New(o Options) *Reconciler { return &Reconciler{o} }

// Reconcile says whether one is provisioned.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := &infrav1.UnmanagedCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, others := o.Annotations[ManagedBy]; others || clusters.Leaving(o) {
		return reconcile.Result{}, nil
	}
	cluster, err := clusters.Of(ctx, r.Reader, r.Kinds, o)
	if err != nil || cluster != nil && clusters.Leaving(cluster) {
		return reconcile.Result{}, err
	}
	plane := clusters.Reference{}
	if cluster != nil && !clusters.Endpoint(cluster).Whole() {
		if plane, err = clusters.Referred(ctx, r.Reader, r.Kinds, cluster, "controlPlaneRef"); err != nil {
			return reconcile.Result{}, err
		}
	}
	next := o.DeepCopy()
	judge(next, cluster, plane)
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, o, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("UnmanagedCluster %s/%s: %w", o.Namespace, o.Name, err)
	}
	result := reconcile.Result{}
	if plane.Name != "" && !bringsEndpoint(plane) {
		result.RequeueAfter = lookAgain
	}
	return result, nil
}

// bringsEndpoint says that a control plane is run by somebody else, who sees to its endpoint: one that he makes it has only once the
// infrastructure is provisioned, which it waits for by Cluster API's contract.
func bringsEndpoint(plane clusters.Reference) bool {
	if plane.Object == nil {
		return false
	}
	external, _, err := unstructured.NestedBool(plane.Object.Object, "status", "externalManagedControlPlane")
	return err == nil && external
}

// judge says in a status what is so with that Cluster, nil: there is none, and the control plane that it refers to.
func judge(o *infrav1.UnmanagedCluster, cluster *unstructured.Unstructured, plane clusters.Reference) {
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: o.Generation})
	}
	if clusters.IsPaused(o) || cluster != nil && clusters.IsPaused(cluster) {
		set(infrav1.ConditionPaused, metav1.ConditionTrue, infrav1.ReasonPaused, "")
		return
	}
	set(infrav1.ConditionPaused, metav1.ConditionFalse, infrav1.ReasonNotPaused, "")
	switch {
	case cluster == nil:
		set(infrav1.ConditionReady, metav1.ConditionFalse, infrav1.ReasonWaitingForCluster, "No Cluster owns it: name it in spec.infrastructureRef of one.")
	case !clusters.Endpoint(cluster).Whole() && !bringsEndpoint(plane):
		message := fmt.Sprintf("Cluster %s has no endpoint: make a ClusterEndpoint, or set its spec.controlPlaneEndpoint.", cluster.GetName())
		if plane.Name != "" {
			message += fmt.Sprintf(" Or have the status of %s %s say externalManagedControlPlane, if whoever runs it makes the endpoint.", plane.Kind.Kind, plane.Name)
		}
		set(infrav1.ConditionReady, metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint, message)
	default:
		o.Status.Initialization = &infrav1.Initialization{Provisioned: true}
		set(infrav1.ConditionReady, metav1.ConditionTrue, infrav1.ReasonReady, "")
	}
}
