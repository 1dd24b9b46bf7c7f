package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/address"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Pause is the least time between two writes of one pool's sums.
const Pause = time.Second

// Recorder writes one event about an AddressPool.
type Recorder interface {
	Event(p *v1alpha1.AddressPool, kind, reason, message string)
}

// Reconciler reconciles AddressPools.
type Reconciler struct {
	Client client.Client
	Keeper *ledger.Keeper
	Fleet  *fleet.Fleet
	Queue  *kit.Queue
	Events Recorder

	mu    sync.Mutex
	known map[string]*v1alpha1.AddressPool

	// frozen: when the fleet changed last, a proxy said that the hub has changed.
	frozen atomic.Bool
}

// Observe notes a pool as a watch delivers it, and gives the ledger what changed.
func (r *Reconciler) Observe(p *v1alpha1.AddressPool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]*v1alpha1.AddressPool{}
	}
	old := r.known[p.Name]
	r.known[p.Name] = p
	if old == nil || old.UID != p.UID || old.Generation != p.Generation {
		r.Keeper.SetPools(r.pools())
	}
}

// Forget notes that a pool is gone.
func (r *Reconciler) Forget(p *v1alpha1.AddressPool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, p.Name)
	r.Keeper.SetPools(r.pools())
}

func (r *Reconciler) pools() []ipam.Pool {
	var out []ipam.Pool
	for _, p := range r.known {
		out = append(out, Convert(p))
	}
	return out
}

// Names returns the pools known.
func (r *Reconciler) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for name := range r.known {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Changed writes the sums of a pool soon.
func (r *Reconciler) Changed(pool string) { r.Queue.AddAfter("", pool, Pause) }

// FleetChanged looks at pools with addresses that are being released, and at all while a hub's change is or was in the way.
func (r *Reconciler) FleetChanged(c fleet.Change) {
	if frozen := len(r.Fleet.Trouble().Frozen) > 0; r.frozen.Swap(frozen) || frozen {
		for _, name := range r.Names() {
			r.Changed(name)
		}
	}
	for pool := range c.Pools {
		for _, a := range r.Keeper.Releasing(pool) {
			r.Changed(a.Object.Spec.Pool)
		}
	}
}

// Reconcile writes one pool's status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.AddressPool{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	counts := r.Keeper.CountsOf(p.Name)
	held := ""
	if p.DeletionTimestamp != nil {
		if counts.Granted+counts.Releasing == 0 {
			return reconcile.Result{}, kit.LetGo(ctx, r.Client, p, v1alpha1.FinalizerInUse)
		}
		held = fmt.Sprintf("Addresses of this pool are in use (granted: %d, being released: %d). They are served on, and nothing new is granted. Delete the Services that hold them (kubectl get addresses names them), and the pool goes with the last.",
			counts.Granted, counts.Releasing)
	}
	if err := kit.Guard(ctx, r.Client, p, v1alpha1.FinalizerInUse); err != nil {
		return reconcile.Result{}, err
	}
	t, err := r.trouble(ctx, p)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := p.DeepCopy()
	next.Status.Free, next.Status.Granted, next.Status.Releasing = counts.Free, counts.Granted, counts.Releasing
	next.Status.Held = int32(len(t.held))
	for _, c := range []metav1.Condition{ready(p, counts), degraded(p, t)} {
		meta.SetStatusCondition(&next.Status.Conditions, c)
	}
	kit.SayHeld(&next.Status.Conditions, p.Generation, held)
	wrote, err := kit.PatchStatus(ctx, r.Client, p, next)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("address pool %s: %w", p.Name, err)
	}
	was := meta.IsStatusConditionTrue(p.Status.Conditions, clusterv1.ConditionDegraded)
	if c := meta.FindStatusCondition(next.Status.Conditions, clusterv1.ConditionDegraded); wrote && !was && c.Status == metav1.ConditionTrue && r.Events != nil {
		r.Events.Event(p, "Warning", c.Reason, c.Message)
	}
	return reconcile.Result{}, nil
}

func ready(p *v1alpha1.AddressPool, counts ipam.Counts) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: p.Generation}
	switch why := Convert(p).Unusable; {
	case p.DeletionTimestamp != nil:
		c.Reason, c.Message = clusterv1.ReasonDeleting, "The pool is being deleted: it grants nothing new."
	case why != "":
		c.Reason, c.Message = clusterv1.ReasonNotSupported, strings.ToUpper(why[:1])+why[1:]
	case counts.Hostless:
		c.Reason = clusterv1.ReasonNoProxies
		c.Message = fmt.Sprintf("No proxy of pool %s says at which addresses its host is reached: start one with --address. Ports are granted meanwhile.", p.Spec.ProxyHosts.Pool)
	case len(counts.Overlaps) > 0:
		c.Reason = v1alpha1.ReasonRangesOverlap
		c.Message = fmt.Sprintf("Some of the ranges lie in the older pools %s as well, which keep them: mend one of the pools.", strings.Join(counts.Overlaps, ", "))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReasonReady
	}
	if counts.Outside > 0 && p.DeletionTimestamp == nil {
		c.Message = strings.TrimSpace(c.Message + " " + outsideText(counts.Outside))
	}
	return c
}

// outsideText is about grants of what was taken out of the pool.
func outsideText(n int64) string {
	if n == 1 {
		return "What the pool has no more is in use by 1 grant: it is kept until its LoadBalancer goes, and granted to nobody else."
	}
	return fmt.Sprintf("What the pool has no more is in use by %d grants: they are kept until their LoadBalancers go, and granted to nobody else.", n)
}

// blocked names the silent proxies that hold up a release.
func (r *Reconciler) blocked(ctx context.Context, p *v1alpha1.AddressPool) ([]proof.Waiting, error) {
	var out []proof.Waiting
	for _, a := range r.Keeper.ReleasingInPool(p.Name) {
		waiting, err := address.Judge(ctx, r.Client, r.Fleet, a)
		if err != nil {
			return nil, err
		}
		for _, w := range waiting {
			if w.Silent && !slices.ContainsFunc(out, func(o proof.Waiting) bool { return o.Proxy == w.Proxy }) {
				out = append(out, w)
			}
		}
	}
	slices.SortFunc(out, func(a, b proof.Waiting) int { return cmp.Compare(a.Proxy, b.Proxy) })
	return out, nil
}
