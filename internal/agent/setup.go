package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/patience"
	"fairlead.dev/fairlead/internal/yield"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// workers at Services; each waits for API servers nearly all of its time.
	workers = 64
	// shutdown bounds how long writes that run may take to end.
	shutdown = 2 * time.Second
)

// Options of an agent.
type Options struct {
	// Tenant and Hub reach the API servers. Neither is throttled here.
	Tenant, Hub *rest.Config
	// HubNamespace is the tenant's namespace in the hub.
	HubNamespace string
	// TenantName is the Tenant's name in the hub.
	TenantName string
	// Instance names this process in Lease and events.
	Instance string
	Filter   service.Filter
	Scheme   *runtime.Scheme
	Logger   *slog.Logger
	// Members, in a management cluster of Cluster API whose hub is another one, follow the Machines behind its LoadBalancers, which
	// are mirrored to the hub; nil: none is.
	Members Members
	// Metrics gets the agent's.
	Metrics prometheus.Registerer
}

// ManagerOptions completes what makes the tenant's manager an agent's: caches, mapper, logger. What it
// doesn't set is the caller's.
func ManagerOptions(o Options, m manager.Options) manager.Options {
	timeout := shutdown
	m.Scheme, m.MapperProvider, m.Cache = o.Scheme, mapper, tenantCache()
	if o.Members != nil {
		m.MapperProvider = managementMapper
	}
	m.Logger = logr.FromSlogHandler(o.Logger.Handler())
	m.Metrics, m.HealthProbeBindAddress = metricsserver.Options{BindAddress: "0"}, "0"
	m.GracefulShutdownTimeout = &timeout
	// An API server that is away at the start is waited for.
	m.Controller.CacheSyncTimeout = math.MaxInt64
	return m
}

// NewManager makes the tenant's manager.
func NewManager(o Options, m manager.Options) (manager.Manager, error) {
	mgr, err := manager.New(patience.Config(o.Tenant), ManagerOptions(o, m))
	if err != nil {
		return nil, fmt.Errorf("making the tenant's manager: %w", err)
	}
	return mgr, nil
}

// Setup adds the agent to the tenant's manager. It works for as long as the Bond holds: the manager ends with the reason
// when it doesn't any more. complete, of an agent that leads, returns once it has read all that it needs of both clusters.
func Setup(mgr manager.Manager, o Options, c *Contact, b *Bond) (complete func(context.Context) error, err error) {
	m := newMetrics(o.TenantName)
	l := &lease{contact: c, bond: b, now: make(chan struct{}, 1), log: o.Logger, metrics: m}
	hubConfig := patience.Config(onReturn(patience.Polite(o.Hub), l.soon))
	hub, err := cluster.New(hubConfig, func(c *cluster.Options) {
		c.Scheme, c.MapperProvider, c.Cache, c.Logger = o.Scheme, mapper, hubCache(o.HubNamespace), mgr.GetLogger()
	})
	if err != nil {
		return nil, fmt.Errorf("making the hub's clients: %w", err)
	}
	if err := o.Metrics.Register(m.registry); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	rights, err := mapper(hubConfig, nil)
	if err != nil {
		return nil, err
	}
	defaultsOptions := defaultsCache(o.TenantName)
	defaultsOptions.Scheme, defaultsOptions.Mapper = o.Scheme, rights
	defaultsHub, err := cache.New(hubConfig, defaultsOptions)
	if err != nil {
		return nil, fmt.Errorf("making the cache of classes: %w", err)
	}
	l.newest = newest(hub.GetCache(), o.HubNamespace)
	d := &defaults{hub: defaultsHub, tenant: o.TenantName, changed: l.soon}
	events := newRecorder(mgr.GetClient(), o.Instance, o.Logger, m)
	n, err := setupNodes(mgr, hub, o, m, b, events)
	if err != nil {
		return nil, err
	}
	s, err := setupServices(mgr, hub, o, m, d, b, events)
	if err != nil {
		return nil, err
	}
	var mirrored *mirrors
	if o.Members != nil {
		if mirrored, err = setupMirrors(mgr, hub, o, m, d, b, events); err != nil {
			return nil, err
		}
	}
	e := &epochs{services: s, nodes: n, mirrors: mirrored, contact: c, bond: b, noted: l.soon, log: o.Logger}
	for _, r := range []manager.Runnable{hub, d, events, l, e} {
		if err := mgr.Add(r); err != nil {
			return nil, fmt.Errorf("adding a part of the agent: %w", err)
		}
	}
	w := &wellness{hub: hub.GetClient(), namespace: o.HubNamespace, clusterUID: b.clusterUID, events: events}
	k := &checking{hub: hub.GetClient(), namespace: o.HubNamespace, clusterUID: b.clusterUID, nodes: n, events: events, log: o.Logger, ask: askHealth()}
	for name, r := range map[string]reconcile.Reconciler{"wellness": w, "checking": k} {
		if err := setupHealth(name, r, mgr, hub, o); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error { return known(ctx, mgr.GetCache(), hub.GetCache(), o.Members != nil) }, nil
}

func setupServices(mgr manager.Manager, hub cluster.Cluster, o Options, m *metrics, d *defaults, b *Bond, events *recorder) (*services, error) {
	r := &services{
		tenant: mgr.GetClient(), tenantLive: mgr.GetAPIReader(),
		hub: hub.GetClient(), hubLive: hub.GetAPIReader(),
		namespace: o.HubNamespace, filter: o.Filter, defaults: d, events: events, log: o.Logger, metrics: m,
		services: newMemory[struct{}](), loadBalancers: newMemory[service.Wanted](), waiting: newSince(), failing: newSince(), refused: newSince(),
		gone: newObserved[types.NamespacedName](), clusterUID: b.clusterUID, propagation: newPropagation(m.propagated),
		backends: &backends{hub: hub.GetClient(), hubLive: hub.GetAPIReader(), namespace: o.HubNamespace, memory: newMemory[v1alpha1.TargetGroupSpec](), emptied: newObserved[types.NamespacedName](), metrics: m},
	}
	c, err := newController("services", mgr, newRetrying(r, "service", o.Logger), workers)
	if err != nil {
		return nil, err
	}
	// Nothing yields before the queue is there: yielding begins with the first work from it.
	if err := c.Watch(source.Func(func(_ context.Context, q queue) error {
		r.way = yield.New(
			func(types.NamespacedName) string { return o.HubNamespace }, // all are one tenant's
			func(key types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: key}) },
		)
		return nil
	})); err != nil {
		return nil, fmt.Errorf("waking Services: %w", err)
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), &v1.Service{}, r.ofTenant())); err != nil {
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	if err := c.Watch(source.Kind(hub.GetCache(), &clusterv1.LoadBalancer{}, fromServices[*clusterv1.LoadBalancer](r.loadBalancers.forget))); err != nil {
		return nil, fmt.Errorf("watching LoadBalancers: %w", err)
	}
	if err := c.Watch(source.Kind(hub.GetCache(), &v1alpha1.TargetGroup{}, fromServices[*v1alpha1.TargetGroup](r.backends.memory.forget), groupEvent{
		// Status is the manager's.
		UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.TargetGroup]) bool {
			return e.ObjectOld.Generation != e.ObjectNew.Generation || !maps.Equal(e.ObjectOld.Annotations, e.ObjectNew.Annotations) || !maps.Equal(e.ObjectOld.Labels, e.ObjectNew.Labels)
		},
	})); err != nil {
		return nil, fmt.Errorf("watching TargetGroups of Services: %w", err)
	}
	return r, nil
}

type (
	queue      = workqueue.TypedRateLimitingInterface[reconcile.Request]
	groupFunc  = handler.TypedFuncs[*v1alpha1.TargetGroup, reconcile.Request]
	groupEvent = predicate.TypedFuncs[*v1alpha1.TargetGroup]
)

// ofTenant wakes Services, and notes when their users did something, and what was seen to be deleted.
func (r *services) ofTenant() handler.TypedFuncs[*v1.Service, reconcile.Request] {
	seen := func(event string, s *v1.Service) {
		if _, ours := r.filter.Class(s); ours {
			r.propagation.seen(service.Key(s), event, s.ResourceVersion)
		}
	}
	wake := func(q queue, s *v1.Service) { q.Add(reconcile.Request{NamespacedName: service.Key(s)}) }
	return handler.TypedFuncs[*v1.Service, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1.Service], q queue) {
			if !e.IsInInitialList {
				seen(eventCreated, e.Object)
			}
			wake(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1.Service], q queue) {
			if byUser(e.ObjectOld, e.ObjectNew) {
				seen(eventChanged, e.ObjectNew)
			}
			r.backends.turned(e.ObjectOld, e.ObjectNew)
			wake(q, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1.Service], q queue) {
			if !e.DeleteStateUnknown || e.Object.DeletionTimestamp != nil {
				r.gone.deleted(service.Key(e.Object))
			}
			r.backends.emptied.exists(service.Key(e.Object))
			wake(q, e.Object)
		},
	}
}

// fromServices wakes the Services that the hub's objects of a kind were made from. gone hears first of each that is deleted.
func fromServices[T client.Object](gone func(types.NamespacedName)) handler.TypedFuncs[T, reconcile.Request] {
	wake := func(q queue, o T) {
		if key, ok := service.Origin(o); ok {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) { wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { wake(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) {
			gone(client.ObjectKeyFromObject(e.Object))
			wake(q, e.Object)
		},
	}
}

func setupNodes(mgr manager.Manager, hub cluster.Cluster, o Options, m *metrics, b *Bond, events *recorder) (*nodes, error) {
	r := &nodes{tenant: mgr.GetClient(), hub: hub.GetClient(), namespace: o.HubNamespace, memory: newMemory[v1alpha1.TargetGroupSpec](), gone: newObserved[string](), events: events, clusterUID: b.clusterUID, log: o.Logger, metrics: m, wake: func() {}}
	c, err := newController("nodes", mgr, newRetrying(r, "nodes", o.Logger), 1)
	if err != nil {
		return nil, err
	}
	one := handler.TypedFuncs[*v1.Node, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*v1.Node], q queue) { q.Add(nodesKey) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[*v1.Node], q queue) { q.Add(nodesKey) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1.Node], q queue) {
			if !e.DeleteStateUnknown || e.Object.DeletionTimestamp != nil {
				r.gone.deleted(string(e.Object.UID))
			}
			q.Add(nodesKey)
		},
	}
	changed := predicate.TypedFuncs[*v1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*v1.Node]) bool { return !sameTarget(e.ObjectOld, e.ObjectNew) }}
	if err := c.Watch(source.Kind(mgr.GetCache(), &v1.Node{}, one, changed)); err != nil {
		return nil, fmt.Errorf("watching Nodes: %w", err)
	}
	groups := groupFunc{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[*v1alpha1.TargetGroup], q queue) { q.Add(nodesKey) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[*v1alpha1.TargetGroup], q queue) { q.Add(nodesKey) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.TargetGroup], q queue) {
			r.memory.forget(client.ObjectKeyFromObject(e.Object))
			q.Add(nodesKey)
		},
	}
	// Status is the manager's; what somebody else does to a spec or its labels is mended.
	ours := groupEvent{
		CreateFunc: func(e event.TypedCreateEvent[*v1alpha1.TargetGroup]) bool { return isGroup(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*v1alpha1.TargetGroup]) bool { return isGroup(e.ObjectNew) },
		DeleteFunc: func(e event.TypedDeleteEvent[*v1alpha1.TargetGroup]) bool { return isGroup(e.Object) },
	}
	if err := c.Watch(source.Kind(hub.GetCache(), &v1alpha1.TargetGroup{}, groups, ours)); err != nil {
		return nil, fmt.Errorf("watching TargetGroups: %w", err)
	}
	// A cluster without Nodes has a group too: without it, LoadBalancers would say that none is selected.
	start := source.Func(func(_ context.Context, q queue) error {
		r.mu.Lock()
		r.wake = func() { q.Add(nodesKey) }
		r.mu.Unlock()
		q.Add(nodesKey)
		return nil
	})
	if err := c.Watch(start); err != nil {
		return nil, fmt.Errorf("starting with Nodes: %w", err)
	}
	return r, nil
}

// setupHealth has r hear when all members of a group have begun or ended to fail.
func setupHealth(name string, r reconcile.Reconciler, mgr manager.Manager, hub cluster.Cluster, o Options) error {
	c, err := newController(name, mgr, newRetrying(r, name, o.Logger), 1)
	if err != nil {
		return err
	}
	one := handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, *v1alpha1.TargetGroup) []reconcile.Request { return []reconcile.Request{nodesKey} })
	if err := c.Watch(source.Kind(hub.GetCache(), &v1alpha1.TargetGroup{}, one, turns)); err != nil {
		return fmt.Errorf("watching the health of TargetGroups: %w", err)
	}
	return nil
}

func isGroup(g *v1alpha1.TargetGroup) bool {
	_, ok := node.Index(g.Name)
	return ok
}

func newController(name string, mgr manager.Manager, r reconcile.Reconciler, workers int) (controller.Controller, error) {
	unique := true // names of metrics only; several agents may run in one process
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler: r, MaxConcurrentReconciles: workers, SkipNameValidation: &unique,
	})
	if err != nil {
		return nil, fmt.Errorf("making controller %s: %w", name, err)
	}
	return c, nil
}
