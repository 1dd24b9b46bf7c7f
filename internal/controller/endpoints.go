package controller

import (
	"context"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// addEndpoints brings ClusterEndpoints to the Clusters of Cluster API, which may be installed at any time.
func (w *wiring) addEndpoints() error {
	r := endpoint.New(endpoint.Options{
		Logger: w.Logger.With("controller", Endpoints), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(),
		Events: eventsOf[*unstructured.Unstructured]{w.mgr.GetEventRecorder("fairlead-manager"), "Make"},
	})
	c, err := w.new(Endpoints, r, 4)
	if err != nil {
		return err
	}
	if err := w.watches(c, watch{&clusterv1.ClusterEndpoint{}, func(_ context.Context, o client.Object) []reconcile.Request {
		if e, ok := o.(*clusterv1.ClusterEndpoint); ok {
			return []reconcile.Request{key(e.Namespace, e.Spec.Cluster)}
		}
		return nil
	}, content}, watch{&clusterv1.LoadBalancer{}, r.OfLoadBalancer, endpoint.Publication}); err != nil {
		return err
	}
	return w.clustersServed(func(cluster client.Object) error { return w.watches(c, watch{of: cluster, when: content}) })
}
