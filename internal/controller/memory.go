package controller

import (
	"context"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/pool"
	"fairlead.dev/fairlead/internal/ipam"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type ref = ipam.Ref

// remember feeds the ledger and the versions, on standby too.
func (w *wiring) remember(ctx context.Context) error {
	observe := func(o client.Object) { w.versions.Of(o) }
	for _, m := range []struct {
		of client.Object
		to toolscache.ResourceEventHandler
	}{
		{&v1alpha1.AddressPool{}, kit.Handler(w.pools.Observe, w.pools.Forget)},
		{&v1alpha1.Address{}, kit.Handler(
			func(a *v1alpha1.Address) {
				w.keeper.Observe(a)
				w.addresses.Queue.Add("", a.Name)
			},
			func(a *v1alpha1.Address) {
				w.keeper.Forget(a)
				w.addresses.Forget(a)
			})},
		{&clusterv1.LoadBalancer{}, kit.Handler(observe, w.versions.Forget)},
		{&v1alpha1.TargetGroup{}, kit.Handler(func(g *v1alpha1.TargetGroup) { w.versions.Of(g) }, w.groups.Forget)},
		{&v1alpha1.LoadBalancerClass{}, kit.Handler(observe, w.versions.Forget)},
		{&v1alpha1.Tenant{}, kit.Handler(observe, w.versions.Forget)},
		{&corev1.Service{}, kit.Handler(w.services.Observe, func(*corev1.Service) {})},
		{&discoveryv1.EndpointSlice{}, kit.Handler(w.services.ObserveSlice, func(*discoveryv1.EndpointSlice) {})},
	} {
		informer, err := w.mgr.GetCache().GetInformer(ctx, m.of)
		if err != nil {
			return fmt.Errorf("watching %T: %w", m.of, err)
		}
		registration, err := informer.AddEventHandler(w.following(m.to))
		if err != nil {
			return fmt.Errorf("watching %T: %w", m.of, err)
		}
		w.synced = append(w.synced, registration.HasSynced)
	}
	return nil
}

// following has the guard look at what each object follows before its handler takes it in.
func (w *wiring) following(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	if w.Guard == nil {
		return h
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { h.OnAdd(o, false) },
		UpdateFunc: func(before, o any) {
			b, ok := before.(client.Object)
			if n, ok2 := o.(client.Object); ok && ok2 && b.GetUID() == n.GetUID() {
				w.Guard.Follows(b, n)
			}
			h.OnUpdate(before, o)
		},
		DeleteFunc: h.OnDelete,
	}
}

func (w *wiring) wentBack(what, before, now string) {
	if w.Guard != nil {
		w.Guard.WentBack(what, before, now)
	}
}

// Complete waits until all memory is complete.
func (w *wiring) complete(ctx context.Context) error {
	if !w.mgr.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("waiting for the caches: %w", ctx.Err())
	}
	for !w.done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the ledger: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return w.runner.WaitForSync(ctx)
}

func (w *wiring) done() bool {
	for _, synced := range w.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// barrier is a source that holds up a controller's workers until all memory is complete, then begins.
type barrier struct {
	*kit.Queue
	complete func(context.Context) error
	begin    func(context.Context) error
}

// Start takes the controller's queue.
func (b barrier) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return b.Queue.Start(ctx, q)
}

// WaitForSync returns when the controller's workers may start.
func (b barrier) WaitForSync(ctx context.Context) error {
	if err := b.complete(ctx); err != nil || b.begin == nil {
		return err
	}
	return b.begin(ctx)
}

// poolCollector counts the pools' addresses when asked.
type poolCollector struct {
	pools  *pool.Reconciler
	keeper *ledger.Keeper
}

// Describe sends nothing: what there is depends on the pools.
func (poolCollector) Describe(chan<- *prometheus.Desc) {}

// Collect counts.
func (c poolCollector) Collect(out chan<- prometheus.Metric) {
	addresses := prometheus.NewDesc("fairlead_pool_addresses", "Addresses of a pool by state.", []string{"pool", "state"}, nil)
	waiting := prometheus.NewDesc("fairlead_waiting_loadbalancers", "LoadBalancers that wait for an address, by reason.", []string{"reason"}, nil)
	for _, name := range c.pools.Names() {
		n := c.keeper.CountsOf(name)
		for state, count := range map[string]int64{"free": n.Free, "granted": n.Granted, "releasing": n.Releasing} {
			out <- prometheus.MustNewConstMetric(addresses, prometheus.GaugeValue, float64(count), name, state)
		}
	}
	for reason, count := range c.keeper.WaitingByReason() {
		out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(count), reason)
	}
}
