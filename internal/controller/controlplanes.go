package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	infrav1 "fairlead.dev/fairlead/api/infrastructure/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/externalcontrolplane"
	"fairlead.dev/fairlead/internal/controller/unmanagedcluster"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// lookForClusters is how often a cluster that serves no Clusters is asked whether it does by now.
const lookForClusters = 30 * time.Second

// clustersServed calls f with a Cluster, of which metadata alone is read, as soon as Clusters are served here, and the kinds named,
// which may be installed at any time. Where the hub is elsewhere, so may the rights to watch them; until then untended, unless nil,
// hears again and again what is lacking.
func (w *wiring) clustersServed(f func(cluster client.Object) error, untended func(ctx context.Context, reason, message string) error, kinds ...schema.GroupVersionKind) error {
	served := func(ctx context.Context) (schema.GroupVersionKind, error) {
		for _, k := range kinds {
			if ok, err := clusters.Has(w.mgr.GetRESTMapper(), k); err != nil || !ok {
				return schema.GroupVersionKind{}, err
			}
		}
		cluster, err := clusters.Served(w.mgr.GetRESTMapper(), "Cluster")
		if err != nil || cluster.Empty() || w.elsewhere == nil {
			return cluster, err
		}
		for _, k := range append(kinds, cluster) {
			if err := w.mayWatch(ctx, k); err != nil {
				return schema.GroupVersionKind{}, err
			}
		}
		return cluster, nil
	}
	return w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		unread := false
		for {
			kind, err := served(ctx)
			was := unread
			unread = err != nil && !apierrors.IsNotFound(err) // else it isn't served
			switch {
			case ctx.Err() != nil:
				return nil
			case unread && !was: // once, for as long as that is so
				w.Logger.Error("whether Clusters, and what is theirs, can be watched can't be read: where it is forbidden, apply "+w.who().Rights, "kinds", kinds, "err", err)
			case err == nil && !kind.Empty():
				cluster := &metav1.PartialObjectMetadata{}
				cluster.SetGroupVersionKind(kind)
				if err := f(cluster); err != nil {
					return fmt.Errorf("watching Clusters: %w", err)
				}
				return nil
			}
			if reason, message := w.lacks(err); untended != nil && reason != "" {
				if err := untended(ctx, reason, message); err != nil && ctx.Err() == nil {
					w.Logger.Error("that no endpoints are published can't be said", "why", message, "err", err)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookForClusters):
			}
		}
	}))
}

// lacks says what is lacking where Clusters, or what is theirs, aren't watched, for the reason that an error gives, nil where one of the
// kinds isn't served; "": that isn't known.
func (w *wiring) lacks(err error) (reason, message string) {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return clusterv1.ReasonNotInstalled, "No Clusters are served here, or no ClusterEndpoints, so no endpoint is published: install Cluster API, and apply config/crd."
	case apierrors.IsForbidden(err):
		return clusterv1.ReasonForbidden, fmt.Sprintf("%s may not watch Clusters and their ClusterEndpoints, so no endpoint is published: apply %s/endpoints.yaml.", strings.ToUpper(w.who().Name[:1])+w.who().Name[1:], w.who().Rights)
	}
	return "", ""
}

// addExternalControlPlanes asks control planes that somebody else runs. A hub without Cluster API has none.
func (w *wiring) addExternalControlPlanes() error {
	r := externalcontrolplane.New(externalcontrolplane.Options{
		Logger: w.Logger.With("controller", ExternalControlPlanes), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(), Who: w.who(),
	})
	if err := w.mgr.Add(r); err != nil {
		return err
	}
	c, err := w.new(ExternalControlPlanes, w.standing(r), 4)
	if err != nil {
		return err
	}
	if err := c.Watch(r.Queue); err != nil {
		return err
	}
	return w.clustersServed(func(cluster client.Object) error {
		return w.watches(c,
			watch{of: &controlplanev1.ExternalControlPlane{}},
			watch{cluster, w.ownedBy(func() client.ObjectList { return &controlplanev1.ExternalControlPlaneList{} }), content},
		)
	}, nil, controlplanev1.GroupVersion.WithKind("ExternalControlPlane"))
}

// addUnmanagedClusters has infrastructure that nobody manages count as provisioned.
func (w *wiring) addUnmanagedClusters() error {
	r := unmanagedcluster.New(unmanagedcluster.Options{Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper()})
	c, err := w.new(UnmanagedClusters, w.standing(r), 4)
	if err != nil {
		return err
	}
	return w.clustersServed(func(cluster client.Object) error {
		return w.watches(c,
			watch{of: &infrav1.UnmanagedCluster{}},
			watch{cluster, w.ownedBy(func() client.ObjectList { return &infrav1.UnmanagedClusterList{} }), content},
		)
	}, nil, infrav1.GroupVersion.WithKind("UnmanagedCluster"))
}

// ownedBy names the objects of a kind that a Cluster owns.
func (w *wiring) ownedBy(list func() client.ObjectList) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, cluster client.Object) []reconcile.Request {
		all := list()
		if err := w.client.List(ctx, all, client.InNamespace(cluster.GetNamespace())); err != nil {
			w.Logger.Error("what a Cluster owns can't be listed", "cluster", cluster.GetNamespace()+"/"+cluster.GetName(), "err", err)
			return nil
		}
		var out []reconcile.Request
		if err := meta.EachListItem(all, func(o runtime.Object) error {
			if c, ok := o.(client.Object); ok {
				if ref := clusters.OwnerOf(c); ref != nil && ref.Name == cluster.GetName() {
					out = append(out, key(c.GetNamespace(), c.GetName()))
				}
			}
			return nil
		}); err != nil {
			w.Logger.Error("what a Cluster owns can't be looked through", "cluster", cluster.GetNamespace()+"/"+cluster.GetName(), "err", err)
		}
		return out
	}
}
