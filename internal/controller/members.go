package controller

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/member"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Members is the controller of Machines behind LoadBalancers.
const Members = "member"

// lookForMachines is how often a hub that serves no Machines, or lets the manager read none, is asked whether it does by now.
const lookForMachines = 30 * time.Second

// newMembers makes the reconciler of Machines behind LoadBalancers.
func (w *wiring) newMembers() (*member.Reconciler, *endpoint.Reconciler) {
	clusters := endpoint.New(endpoint.Options{
		Logger: w.Logger.With("controller", Members), Client: w.client, Reader: w.mgr.GetAPIReader(), Kinds: w.mgr.GetRESTMapper(),
	})
	return member.New(member.Options{
		Logger: w.Logger.With("controller", Members), Client: w.client, Cache: w.mgr.GetCache(), Reader: w.mgr.GetAPIReader(), Clusters: clusters,
		Fleet: w.fleet, Asked: w.groups.Proxies, Versions: w.versions, Events: eventsOf[*clusterv1.LoadBalancer]{w.mgr.GetEventRecorder("fairlead-manager"), "Release"}, Now: time.Now,
	}), clusters
}

// addMembers follows the Machines of Cluster API, which may be installed at any time, as may the rights to read them.
func (w *wiring) addMembers() error {
	r, clusters := w.newMembers()
	w.Metrics.MustRegister(member.NewCollector(r))
	c, err := w.new(Members, r, 4)
	if err != nil {
		return err
	}
	if err := w.watches(c,
		watch{of: &clusterv1.LoadBalancer{}, when: predicate.NewPredicateFuncs(func(o client.Object) bool {
			l, ok := o.(*clusterv1.LoadBalancer)
			return !ok || member.Concerns(l)
		})},
		watch{of: &v1alpha1.TargetGroup{}, to: member.OfGroup},
		watch{of: &discoveryv1.EndpointSlice{}, to: r.OfSlice},
		watch{&v1alpha1.LoadBalancerClass{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			return w.inNamespace(ctx, "", func(l *clusterv1.LoadBalancer) bool { return l.Spec.ClassName == o.GetName() && member.Concerns(l) })
		}, content},
		watch{&v1alpha1.Tenant{}, func(ctx context.Context, o client.Object) []reconcile.Request {
			if t, ok := o.(*v1alpha1.Tenant); ok {
				return w.inNamespace(ctx, t.NamespaceName(), member.Concerns)
			}
			return nil
		}, presence},
	); err != nil {
		return err
	}
	if err := c.Watch(barrier{r.Queue, w.complete, nil}); err != nil {
		return err
	}
	return w.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			followed, err := w.followMachines(ctx, c, r, clusters)
			if ctx.Err() != nil {
				return nil
			}
			if err == nil && (followed || r.Unwatched()) {
				err = r.All(ctx)
			}
			if err != nil || followed {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(lookForMachines):
			}
		}
	}))
}

// followMachines begins to, where the hub serves Machines and the manager may watch them.
func (w *wiring) followMachines(ctx context.Context, c ctrlcontroller.Controller, r *member.Reconciler, clusters *endpoint.Reconciler) (bool, error) {
	var kinds [2]schema.GroupVersionKind
	for i, name := range []string{"Machine", "Cluster"} {
		kind, err := clusters.Served(name)
		if err == nil && !kind.Empty() {
			err = w.mayWatch(ctx, kind)
		}
		switch {
		case err == nil && kind.Empty(), apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			w.Logger.Error("whether Machines can be watched can't be read", "err", err)
			return false, nil
		}
		kinds[i] = kind
	}
	machine, cluster := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(kinds[0])
	cluster.SetGroupVersionKind(kinds[1])
	if _, err := w.mgr.GetCache().GetInformer(ctx, machine); err != nil { // it waits until the first list is in
		return false, fmt.Errorf("watching Machines: %w", err)
	}
	r.Watches(kinds[0])
	if err := w.watches(c, watch{machine, r.OfMachine, nil}, watch{cluster, r.OfCluster, content}); err != nil {
		return false, fmt.Errorf("watching Machines: %w", err)
	}
	return true, nil
}

// mayWatch says why a kind can't be watched: an informer that may not never ends its first list.
func (w *wiring) mayWatch(ctx context.Context, kind schema.GroupVersionKind) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := w.Watcher.List(ctx, list, client.Limit(1)); err != nil {
		return fmt.Errorf("listing %ss: %w", kind.Kind, err)
	}
	seen, err := w.Watcher.Watch(ctx, list)
	if err != nil {
		return fmt.Errorf("watching %ss: %w", kind.Kind, err)
	}
	seen.Stop()
	return nil
}
