package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// besideLook is how often a manager in the management cluster is looked for, and what stands still because of it is looked at again.
const besideLook = 5 * time.Second

// beside looks for a manager in the management cluster. It would follow the same Machines and Clusters, so while one leads there the agent
// stands still with all that --management is for. One leads as long as its Lease is seen to be renewed, by this clock; of one that was not
// seen before its own clock says when that was. It is safe for concurrent use.
type beside struct {
	tenant client.Reader // the API server itself
	// changed is called when one leads, or leads no more.
	changed func(context.Context)
	log     *slog.Logger
	now     func() time.Time

	mu     sync.Mutex
	seen   *proof.Liveness
	leader string // "": none leads
	looked bool
	hidden bool // it may not be read, and the log has it
}

func newBeside(tenant client.Reader, log *slog.Logger) *beside {
	return &beside{tenant: tenant, changed: func(context.Context) {}, log: log, now: time.Now, seen: proof.NewLiveness()}
}

// Start looks again and again until ctx ends.
func (b *beside) Start(ctx context.Context) error {
	for {
		if b.look(ctx) {
			b.changed(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(besideLook):
		}
	}
}

// look reads the Lease, and says whether that changed anything. Where it can't be read what was is so still.
func (b *beside) look(ctx context.Context) (changed bool) {
	soon, cancel := context.WithTimeout(ctx, besideLook)
	defer cancel()
	l := &coordinationv1.Lease{}
	err := b.tenant.Get(soon, types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: v1alpha1.ManagerLease}, l)
	b.mu.Lock()
	defer b.mu.Unlock()
	was, looked := b.leader, b.looked
	switch {
	case apierrors.IsNotFound(err):
		b.seen.Forget(v1alpha1.ManagerLease)
		b.leader, b.hidden = "", false
	case apierrors.IsForbidden(err):
		if !b.hidden {
			b.log.Error("whether a manager follows the same Machines can't be told, for its Lease may not be read: apply config/rbac/management", "err", err)
		}
		b.leader, b.hidden = "", true
	case err != nil:
		b.log.Debug("whether a manager follows the same Machines can't be read", "err", err)
		return false
	default:
		b.leader, b.hidden = b.leads(l), false
	}
	b.looked = true
	switch {
	case b.leader != "" && was == "":
		b.log.Error("a manager leads in this management cluster, and would follow the same Machines and Clusters: standing still until it is gone", "manager", b.leader)
	case b.leader == "" && was != "":
		b.log.Info("no manager leads in this management cluster any more: going on", "manager", was)
	}
	return b.leader != was || !looked
}

// leads says who does by a Lease; "": nobody.
func (b *beside) leads(l *coordinationv1.Lease) string {
	if l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" {
		b.seen.Forget(v1alpha1.ManagerLease)
		return ""
	}
	now, renewal := b.now(), l.Spec.RenewTime.Time
	word := renewal.UTC().Format(time.RFC3339Nano)
	first := now
	if renewal.Before(now) {
		first = renewal
	}
	b.seen.List(v1alpha1.ManagerLease, word, first)
	b.seen.See(v1alpha1.ManagerLease, word, now)
	if !b.seen.Live(v1alpha1.ManagerLease, now) {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// still is why nothing of the management cluster may be written now; "": it may. known is false where nobody has looked yet.
func (b *beside) still() (why string, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.looked:
		return "whether a manager leads in this management cluster isn't known yet", false
	case b.leader != "":
		return fmt.Sprintf("manager %s leads in this management cluster, and would follow the same Machines and Clusters, so that the agent stands still: take the managers out of this cluster; or have it be the hub, and run the agent without --management", b.leader), true
	}
	return "", true
}

// stands is 1 while a manager leads, as the metric has it.
func (b *beside) stands() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leader != "" {
		return 1
	}
	return 0
}

// standStill leaves a LoadBalancer, and what the hub has of it, as they are. It says why where that is known. Another hub is given what it
// lacks all the same, by round.
func (r *mirrors) standStill(ctx context.Context, of types.NamespacedName, why string, known bool) (reconcile.Result, error) {
	if !known {
		return reconcile.Result{RequeueAfter: besideLook / 5}, nil
	}
	again := reconcile.Result{RequeueAfter: besideLook}
	l := &clusterv1.LoadBalancer{}
	if err := r.tenant.Get(ctx, of, l); apierrors.IsNotFound(err) {
		return again, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading LoadBalancer: %w", err)
	}
	if l.DeletionTimestamp != nil || !management.Mirrored(l) {
		return again, nil
	}
	next := l.DeepCopy()
	next.Status.Conditions = management.StandsStill(l, why)
	return again, r.say(ctx, l, next)
}

// Still is why nothing of the management cluster may be written now; "": it may.
func (r *mirrors) Still() string {
	why, _ := r.beside.still()
	return why
}

// all names the LoadBalancers of the management cluster.
func (r *mirrors) all(ctx context.Context) ([]types.NamespacedName, error) {
	list := &clusterv1.LoadBalancerList{}
	if err := r.tenant.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing LoadBalancers: %w", err)
	}
	var out []types.NamespacedName
	for i := range list.Items {
		out = append(out, management.Key(&list.Items[i]))
	}
	return out, nil
}
