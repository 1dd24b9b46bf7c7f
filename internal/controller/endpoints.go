package controller

import (
	"context"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// addEndpoints brings ClusterEndpoints to the Clusters of Cluster API, which may be installed at any time.
func (w *wiring) addEndpoints() error {
	r := endpoint.New(endpoint.Options{
		Logger: w.Logger.With("controller", Endpoints), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(),
		Events: eventsOf[*unstructured.Unstructured]{w.mgr.GetEventRecorder(w.recorder()), "Make"}, Who: w.who(), Elsewhere: w.vouches(),
	})
	c, err := w.new(Endpoints, w.standing(r), 4)
	if err != nil {
		return err
	}
	all := []watch{
		{&clusterv1.ClusterEndpoint{}, func(_ context.Context, o client.Object) []reconcile.Request {
			if e, ok := o.(*clusterv1.ClusterEndpoint); ok {
				return []reconcile.Request{key(e.Namespace, e.Spec.Cluster)}
			}
			return nil
		}, content},
		{&clusterv1.LoadBalancer{}, r.OfLoadBalancer, endpoint.Publication},
		// Those that are cached for others: of a hub the ones that were made for LoadBalancers, elsewhere all. The rest is asked for by name.
		{&corev1.Service{}, r.OfService, endpoint.Reached},
	}
	ofCluster := func(cluster client.Object) watch { return watch{of: cluster, when: content} }
	if w.elsewhere != nil { // there all of it may be missing
		return w.clustersServed(func(cluster client.Object) error {
			return w.watches(c, append(all, ofCluster(cluster))...)
		}, r.Untended, clusterv1.GroupVersion.WithKind("ClusterEndpoint"))
	}
	if err := w.watches(c, all...); err != nil {
		return err
	}
	return w.clustersServed(func(cluster client.Object) error { return w.watches(c, ofCluster(cluster)) }, nil)
}
