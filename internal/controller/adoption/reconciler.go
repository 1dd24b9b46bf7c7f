package adoption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// By is who fences, as spec.fenced says.
const By = "fairlead-manager"

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes.
	Client client.Client
	Keeper *ledger.Keeper
	Fleet  *fleet.Fleet
	// Events tells people about Proxies.
	Events Recorder
}

// Recorder writes one event about a Proxy.
type Recorder interface {
	Event(p *v1alpha1.Proxy, kind, reason, message string)
}

// Reconciler adopts all that there is at once: its queue has one key.
type Reconciler struct {
	Options
	Queue *kit.Queue

	mu sync.Mutex
	// stuck are the claims of addresses that no pool has, or that are full, which were told.
	stuck map[string]struct{}
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, Queue: &kit.Queue{}, stuck: map[string]struct{}{}}
	o.Fleet.Subscribe(func(fleet.Change) { r.Look() })
	return r
}

// Look looks at what proxies say soon, if any is frozen.
func (r *Reconciler) Look() {
	if len(r.Fleet.Trouble().Frozen) > 0 || r.Keeper.Disputed() {
		r.Queue.Add("", "all")
	}
}

// Reconcile adopts what can be adopted: what can't keeps nothing else from it.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	t := r.Fleet.Trouble()
	claims, unheard := map[ipam.What][]ipam.Claim{}, map[string]struct{}{} // pools of proxies
	for _, p := range t.Unseen {
		unheard[p.Pool] = struct{}{}
	}
	for _, p := range t.Frozen {
		// It says that the hub has changed, then what it serves, then it renews.
		if !p.Settled || p.Unheard() {
			unheard[p.Pool] = struct{}{}
		}
		for _, c := range ledger.Claims(p) {
			claims[c.What] = append(claims[c.What], c)
		}
	}
	r.Keeper.Undisputed(claims)
	proxies, stale, failed := r.Fleet.All(), map[string][]string{}, []error(nil)
	for _, what := range slices.SortedFunc(maps.Keys(claims), func(a, b ipam.What) int { return strings.Compare(a.Name(), b.Name()) }) {
		if slices.ContainsFunc(claims[what], func(c ipam.Claim) bool { _, waits := unheard[c.ProxyPool]; return waits }) {
			continue // it is woken by whoever is heard of
		}
		d, err := r.Keeper.Adopt(ctx, what, claims[what], proxies)
		if err != nil {
			if failed = append(failed, err); ctx.Err() != nil {
				return reconcile.Result{}, join(failed)
			}
			continue
		}
		for _, p := range d.Stale {
			stale[p] = append(stale[p], what.Name())
		}
		switch {
		case d.NoPool:
			r.tellStuck(ctx, claims[what], "no AddressPool has that: create the pool")
		case d.Full:
			r.tellStuck(ctx, claims[what], fmt.Sprintf("%d LoadBalancers share it already, which is the limit: delete one of them", ipam.MaxHolders))
		}
	}
	for name, addresses := range stale {
		if err := r.fence(ctx, name, addresses); err != nil {
			failed = append(failed, fmt.Errorf("fencing proxy %s: %w", name, err))
		}
	}
	return reconcile.Result{}, join(failed)
}

// told is how many errors of one round are told in full.
const told = 8

// join makes one error of those of a round, of which there may be as many as addresses.
func join(failed []error) error {
	if more := len(failed) - told; more > 0 {
		failed = append(failed[:told:told], fmt.Errorf("and %d more", more))
	}
	return errors.Join(failed...)
}

// fence stops a proxy that serves addresses for others than those who have them.
func (r *Reconciler) fence(ctx context.Context, name string, addresses []string) error {
	p := &v1alpha1.Proxy{}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	reason := fmt.Sprintf("It served what it had before the hub changed, and other proxies serve as the ledger says: %s.", kit.Some(addresses))
	wrote, err := kit.Fence(ctx, r.Client, p, v1alpha1.Fence{By: By, Reason: reason})
	if err != nil || !wrote {
		return err
	}
	r.Logger.Warn("a proxy is fenced: it is stale", "proxy", name, "addresses", strings.Join(addresses, ","))
	if r.Events != nil {
		r.Events.Event(p, "Warning", kit.EventFenced, reason)
	}
	return nil
}

// tellStuck says once why an address can't be taken into the ledger, and what a person can do about it.
func (r *Reconciler) tellStuck(ctx context.Context, claims []ipam.Claim, why string) {
	for _, c := range claims {
		key := c.Proxy + " " + c.What.Name()
		r.mu.Lock()
		_, told := r.stuck[key]
		r.stuck[key] = struct{}{}
		r.mu.Unlock()
		if told {
			continue
		}
		r.Logger.Warn("a proxy serves an address that can't be adopted", "proxy", c.Proxy, "address", c.What.Name(), "loadbalancer", c.Holder.Ref.String(), "why", why)
		p := &v1alpha1.Proxy{}
		if err := r.Client.Get(ctx, types.NamespacedName{Name: c.Proxy}, p); err == nil && r.Events != nil {
			r.Events.Event(p, "Warning", v1alpha1.ReasonHubReplaced, fmt.Sprintf(
				"It serves %s for LoadBalancer %s, and %s, and it is taken into the ledger.", c.What, c.Holder.Ref, why))
		}
	}
}
