package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/member"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Hub speaks for the hub, and for the proxies that send to Machines of a management cluster. It is safe for concurrent use.
type Hub interface {
	// Unsure asks the hub, and says why it isn't sure that what the status of a LoadBalancer of the management cluster says is so
	// there now; "": it is.
	Unsure(ctx context.Context, l *clusterv1.LoadBalancer) string
	// Still is why nothing of the management cluster may be written now; "": it may.
	Still() string
	// Sees returns what the hub says of the targets of a TargetGroup of the management cluster, each by its place. since is the
	// generation in which one was first seen as it stands there now.
	Sees(ctx context.Context, g *v1alpha1.TargetGroup, since func(*v1alpha1.Target) int64) (func(at int) member.Sight, error)
}

// Members adds what follows Machines and Clusters to the manager of a management cluster. wake has it look at one LoadBalancer of that cluster.
type Members func(mgr manager.Manager, hub Hub) (wake func(types.NamespacedName), err error)

// errIsHub says what to do.
var errIsHub = errors.New("this cluster is the hub itself, whose manager follows its Machines: run this agent without --management")

// managementMapper knows beside the agent's kinds those that the management cluster serves, once somebody asks for one.
func managementMapper(cfg *rest.Config, with *http.Client) (meta.RESTMapper, error) {
	ours, err := mapper(cfg, with)
	if err != nil {
		return nil, err
	}
	served, err := apiutil.NewDynamicRESTMapper(cfg, with)
	if err != nil {
		return nil, fmt.Errorf("making what finds the kinds of the management cluster: %w", err)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{ours, served}}, nil
}

func setupMirrors(mgr manager.Manager, hub cluster.Cluster, o Options, m *metrics, d *defaults, b *Bond, events *recorder) (*mirrors, error) {
	if b.hubUID == b.clusterUID {
		return nil, errIsHub
	}
	r := &mirrors{
		tenant: mgr.GetClient(), tenantLive: mgr.GetAPIReader(), hub: hub.GetClient(), hubLive: hub.GetAPIReader(),
		namespace: o.HubNamespace, hubUID: b.hubUID, defaults: d, proxied: d.proxied, events: events, clusterUID: b.clusterUID, log: o.Logger, metrics: m,
		loadBalancers: newMemory[management.Wanted](), groups: newMemory[v1alpha1.TargetGroupSpec](), failing: newSince(), refused: newSince(), silent: newSilence(), beside: newBeside(mgr.GetAPIReader(), o.Logger),
		gone: newObserved[types.NamespacedName](), goneGroups: newObserved[types.NamespacedName](),
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fairlead_agent_stands_still", Help: "1 while a manager leads in the management cluster, so that the agent leaves Machines and Clusters alone.",
	}, r.beside.stands))
	wake, err := o.Members(mgr, r)
	if err != nil {
		return nil, err
	}
	c, err := newController("mirrors", mgr, newRetrying(r, "loadbalancer", o.Logger), workers)
	if err != nil {
		return nil, err
	}
	for _, s := range []source.Source{
		source.Kind(mgr.GetCache(), &clusterv1.LoadBalancer{}, seenHere[*clusterv1.LoadBalancer](r.gone, func(l *clusterv1.LoadBalancer) (types.NamespacedName, bool) {
			return management.Key(l), true
		})),
		source.Kind(mgr.GetCache(), &v1alpha1.TargetGroup{}, seenHere[*v1alpha1.TargetGroup](r.goneGroups, func(g *v1alpha1.TargetGroup) (types.NamespacedName, bool) {
			of, _, ok := management.Local(g)
			return of, ok
		})),
		source.Kind(hub.GetCache(), &clusterv1.LoadBalancer{}, fromMirrored[*clusterv1.LoadBalancer](r.loadBalancers.forget, wake)),
		source.Kind(hub.GetCache(), &v1alpha1.TargetGroup{}, fromMirrored[*v1alpha1.TargetGroup](r.groups.forget, wake)),
	} {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("watching what is mirrored: %w", err)
		}
	}
	var wakes atomic.Pointer[queue] // nil: the controller looks at all in a moment
	if err := c.Watch(source.Func(func(_ context.Context, q queue) error { wakes.Store(&q); return nil })); err != nil {
		return nil, fmt.Errorf("waking what stands still: %w", err)
	}
	r.beside.changed = func(ctx context.Context) {
		all, err := r.all(ctx)
		if err != nil {
			o.Logger.Error("what stands still, or goes on, can't be listed", "err", err)
		}
		for q := wakes.Load(); q != nil && len(all) > 0; all = all[1:] {
			(*q).Add(reconcile.Request{NamespacedName: all[0]})
		}
	}
	if err := mgr.Add(r.beside); err != nil {
		return nil, fmt.Errorf("looking for a manager beside the agent: %w", err)
	}
	return r, nil
}

// seenHere wakes the LoadBalancer that an object of the management cluster concerns, and notes what was seen to be deleted there.
func seenHere[T client.Object](gone *observed[types.NamespacedName], of func(T) (types.NamespacedName, bool)) handler.TypedFuncs[T, reconcile.Request] {
	wake := func(q queue, o T) {
		if key, ok := of(o); ok {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[T], q queue) {
			gone.exists(client.ObjectKeyFromObject(e.Object))
			wake(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[T], q queue) { wake(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[T], q queue) {
			_, moves := e.Object.GetAnnotations()[clusterv1.MoveAnnotation] // another cluster has it now
			if !moves && (!e.DeleteStateUnknown || e.Object.GetDeletionTimestamp() != nil) {
				gone.deleted(client.ObjectKeyFromObject(e.Object))
			}
			wake(q, e.Object)
		},
	}
}

// fromMirrored wakes those who look after the LoadBalancer that an object of the hub was made from. gone hears first of each that
// is deleted; members is told what the hub has said.
func fromMirrored[T client.Object](gone, members func(types.NamespacedName)) handler.TypedFuncs[T, reconcile.Request] {
	wake := func(q queue, o T) {
		if key, ok := management.Origin(o); ok {
			q.Add(reconcile.Request{NamespacedName: key})
			members(key)
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
