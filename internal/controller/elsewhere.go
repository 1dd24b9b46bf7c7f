package controller

import (
	"context"
	"fmt"
	"log/slog"

	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/member"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ElsewhereOptions are those of a management cluster whose hub is another cluster.
type ElsewhereOptions struct {
	Logger *slog.Logger
	// Watcher lists and watches in the management cluster, to find out whether Machines may be.
	Watcher client.WithWatch
	// Hub speaks for the hub's proxies.
	Hub member.Elsewhere
}

// SetupElsewhere adds the controller of Machines behind LoadBalancers to the manager of a management cluster whose hub is another
// cluster. wake has it look at a LoadBalancer of whose Machines the hub has spoken.
func SetupElsewhere(mgr manager.Manager, o ElsewhereOptions) (wake func(types.NamespacedName), err error) {
	w := &wiring{
		Options: Options{Logger: o.Logger, Watcher: o.Watcher}, mgr: mgr, client: mgr.GetClient(), versions: kit.NewVersions(),
		groups: &targetgroup.Reconciler{}, elsewhere: o.Hub,
	}
	r, clusters := w.newMembers()
	c, err := w.new(Members, r, 4)
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
	return func(of types.NamespacedName) { r.Queue.AddAfter(of.Namespace, of.Name, member.Pause) }, nil
}
