package controller

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lookForClusters is how often a hub that serves no Clusters is asked whether it does by now.
const lookForClusters = 30 * time.Second

// addEndpoints brings ClusterEndpoints to the Clusters of Cluster API, which may be installed at any time.
func (w *wiring) addEndpoints() error {
	r := endpoint.New(endpoint.Options{
		Logger: w.Logger.With("controller", Endpoints), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(),
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
	}, content}); err != nil {
		return err
	}
	return w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			switch kind, err := r.Served("Cluster"); {
			case err != nil:
				w.Logger.Error("whether the hub serves Clusters can't be read", "err", err)
			case !kind.Empty():
				cluster := &metav1.PartialObjectMetadata{}
				cluster.SetGroupVersionKind(kind)
				if err := w.watches(c, watch{of: cluster, when: content}); err != nil {
					return fmt.Errorf("watching Clusters: %w", err)
				}
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookForClusters):
			}
		}
	}))
}
