package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/member"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Elsewhere speaks for a hub that is another cluster than the management cluster.
type Elsewhere interface {
	member.Elsewhere
	endpoint.Elsewhere
	// Still is why nothing of the management cluster may be written now; "": it may.
	Still() string
}

// stillLook is when what stands still is looked at again.
const stillLook = 5 * time.Second

// standing has a controller stand still while the agent does.
type standing struct {
	reconcile.Reconciler
	hub Elsewhere
	// forget, unless nil, is told of what stands still.
	forget func(types.NamespacedName)
}

// Reconcile leaves all as it is while the agent stands still.
func (s standing) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if s.hub.Still() == "" {
		return s.Reconciler.Reconcile(ctx, req)
	}
	if s.forget != nil {
		s.forget(req.NamespacedName)
	}
	return reconcile.Result{RequeueAfter: stillLook}, nil
}

// ElsewhereOptions are those of a management cluster whose hub is another cluster.
type ElsewhereOptions struct {
	Logger *slog.Logger
	// Watcher lists and watches in the management cluster, to find out whether a kind may be.
	Watcher client.WithWatch
	// Hub speaks for the hub, and its proxies.
	Hub Elsewhere
	// Metrics are registered here.
	Metrics prometheus.Registerer
}

// SetupElsewhere adds the controllers of a management cluster to its manager, where the hub is another cluster: of Machines behind
// LoadBalancers, of Clusters' endpoints, of control planes and infrastructure that somebody else runs. wake has the first look at a
// LoadBalancer of which the hub has spoken.
func SetupElsewhere(mgr manager.Manager, o ElsewhereOptions) (wake func(types.NamespacedName), err error) {
	w := &wiring{
		Options: Options{Logger: o.Logger, Watcher: o.Watcher, Metrics: o.Metrics}, mgr: mgr, client: mgr.GetClient(), versions: kit.NewVersions(),
		groups: &targetgroup.Reconciler{}, elsewhere: o.Hub,
	}
	r, clusters := w.newMembers()
	w.Metrics.MustRegister(member.NewCollector(r))
	c, err := w.new(Members, standing{r, o.Hub, r.StandsStill}, 4)
	if err != nil {
		return nil, fmt.Errorf("adding controller %s: %w", Members, err)
	}
	if err := w.followMembers(c, r, clusters, barrier{r.Queue, func(ctx context.Context) error {
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("waiting for the caches: %w", ctx.Err())
		}
		return nil
	}, nil}); err != nil {
		return nil, fmt.Errorf("adding controller %s: %w", Members, err)
	}
	for _, part := range []struct {
		name string
		add  func() error
	}{{Endpoints, w.addEndpoints}, {ExternalControlPlanes, w.addExternalControlPlanes}, {UnmanagedClusters, w.addUnmanagedClusters}} {
		if err := part.add(); err != nil {
			return nil, fmt.Errorf("adding controller %s: %w", part.name, err)
		}
	}
	return func(of types.NamespacedName) { r.Queue.AddAfter(of.Namespace, of.Name, member.Pause) }, nil
}

// standing is a controller's reconciler, which stands still while an agent does.
func (w *wiring) standing(r reconcile.Reconciler) reconcile.Reconciler {
	if w.elsewhere == nil {
		return r
	}
	return standing{r, w.elsewhere, nil}
}

// witness speaks for the proxies of a hub elsewhere; nil: they are heard here.
func (w *wiring) witness() member.Elsewhere {
	if w.elsewhere == nil {
		return nil
	}
	return w.elsewhere
}

// vouches speaks for a hub elsewhere; nil: it is this cluster.
func (w *wiring) vouches() endpoint.Elsewhere {
	if w.elsewhere == nil {
		return nil
	}
	return w.elsewhere
}

// who runs these controllers, as messages name it.
func (w *wiring) who() clusters.Who {
	if w.elsewhere == nil {
		return clusters.Manager()
	}
	return clusters.Agent()
}

// recorder is the name under which events are written.
func (w *wiring) recorder() string {
	if w.elsewhere == nil {
		return "fairlead-manager"
	}
	return "fairlead-agent"
}
