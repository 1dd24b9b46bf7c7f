package unmanagedcluster

import (
	"context"
	"fmt"

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
	next := o.DeepCopy()
	judge(next, cluster)
	if _, err := kit.PatchStatusAsRead(ctx, r.Client, o, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("UnmanagedCluster %s/%s: %w", o.Namespace, o.Name, err)
	}
	return reconcile.Result{}, nil
}

// judge says in a status what is so with that Cluster; nil: there is none.
func judge(o *infrav1.UnmanagedCluster, cluster *unstructured.Unstructured) {
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
	case !clusters.Endpoint(cluster).Whole():
		set(infrav1.ConditionReady, metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint,
			fmt.Sprintf("Cluster %s has no endpoint: make a ClusterEndpoint, or set its spec.controlPlaneEndpoint.", cluster.GetName()))
	default:
		o.Status.Initialization = &infrav1.Initialization{Provisioned: true}
		set(infrav1.ConditionReady, metav1.ConditionTrue, infrav1.ReasonReady, "")
	}
}
