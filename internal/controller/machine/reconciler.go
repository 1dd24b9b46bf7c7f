package machine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// By is who fences, as spec.fenced says.
const By = "fairlead-manager"

// kinds are those of Machines in the versions that a hub may serve. A version that is not named isn't looked for
// again, where the hub's kinds were read before Cluster API was installed.
func kinds() []schema.GroupVersionKind {
	group := schema.GroupVersion{Group: "cluster.x-k8s.io"}
	var out []schema.GroupVersionKind
	for _, group.Version = range []string{"v1beta2", "v1beta1"} {
		out = append(out, group.WithKind("Machine"))
	}
	return out
}

// lookAgain is how often the Machine of a silent proxy is looked for.
const lookAgain = time.Minute

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Kinds says in which version the hub serves a kind, if at all.
	Kinds meta.RESTMapper
	Fleet *fleet.Fleet
	// PoolsServedBy names the AddressPools of which a pool of proxies serves addresses as the ledger says.
	PoolsServedBy func(proxyPool string) []string
	// Events tells people about Proxies.
	Events Recorder
}

// Recorder writes one event about a Proxy.
type Recorder interface {
	Event(p *v1alpha1.Proxy, kind, reason, message string)
}

// Reconciler reconciles Proxies that have a Machine.
type Reconciler struct {
	Options
	Queue *kit.Queue
}

// New returns a reconciler that hears of changes in the fleet.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, Queue: &kit.Queue{}}
	o.Fleet.Subscribe(func(c fleet.Change) {
		for pool := range c.Pools {
			for _, p := range r.Fleet.Pool(pool) {
				if p.OnMachine && !p.Live && !p.Out {
					r.Queue.Add("", p.Name)
				}
			}
		}
	})
	return r
}

// Reconcile fences one proxy if its Machine is gone.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.Proxy{}
	if err := r.Client.Get(ctx, req.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if p.Spec.MachineRef == nil || r.Fleet.LastSeen(p.Name).IsZero() || !mayFence(p.Name, r.Fleet.Pool(p.Spec.Pool)) {
		return reconcile.Result{}, nil // the fleet wakes us when that changes
	}
	again := reconcile.Result{RequeueAfter: lookAgain}
	if restoring, err := r.restoring(ctx, p.Spec.Pool); err != nil || restoring {
		return again, err
	}
	gone, err := r.gone(ctx, types.NamespacedName{Namespace: p.Spec.MachineRef.Namespace, Name: p.Spec.MachineRef.Name})
	if err != nil || !gone {
		return again, err
	}
	reason := fmt.Sprintf("It is silent, and its Machine %s/%s is gone.", p.Spec.MachineRef.Namespace, p.Spec.MachineRef.Name)
	wrote, err := kit.Fence(ctx, r.Client, p, v1alpha1.Fence{By: By, Reason: reason})
	if err != nil || !wrote {
		return reconcile.Result{}, err
	}
	r.Logger.Warn("a proxy is fenced: its machine is gone", "proxy", p.Name, "machine", p.Spec.MachineRef.Name)
	if r.Events != nil {
		r.Events.Event(p, "Warning", kit.EventFenced, reason)
	}
	return reconcile.Result{}, nil
}

// mayFence says whether what is known of the proxies of its pool lets a silent one be fenced. Where a whole pool is silent, or
// its hub has changed under it, a Machine that is missing was more likely lost by the hub than deleted.
func mayFence(name string, pool []*proof.Proxy) bool {
	silent, witness := false, false
	for _, v := range pool {
		switch {
		case v.Out:
		case v.Frozen() || v.Live && !v.Renewed:
			return false
		case v.Name == name:
			silent = !v.Live
		case v.Live && v.Reported && v.HubChanged == "":
			witness = true
		}
	}
	return silent && witness
}

// restoring says whether an AddressPool of which a pool of proxies serves addresses, by a class or by the ledger, is being
// restored, as a person says: then Machines may be yet to come, too. Where no class names the pool of proxies, classes may be, and each AddressPool counts.
func (r *Reconciler) restoring(ctx context.Context, proxyPool string) (bool, error) {
	pools, classes := &v1alpha1.AddressPoolList{}, &v1alpha1.LoadBalancerClassList{}
	if err := r.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing address pools: %w", err)
	}
	if err := r.Client.List(ctx, classes, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing classes: %w", err)
	}
	known, serves := false, map[string]bool{}
	for _, pool := range r.PoolsServedBy(proxyPool) {
		serves[pool] = true
	}
	for i := range classes.Items {
		if s := &classes.Items[i].Spec; s.Proxy != nil && s.Proxy.Pool == proxyPool {
			known = true
			for _, pool := range s.AddressPools {
				serves[pool] = true
			}
		}
	}
	return slices.ContainsFunc(pools.Items, func(p v1alpha1.AddressPool) bool { return p.Spec.Restoring && (!known || serves[p.Name]) }), nil
}

// gone says whether a Machine doesn't exist, by the API server's own word. Where Machines can't be listed, nothing is known.
func (r *Reconciler) gone(ctx context.Context, machine types.NamespacedName) (bool, error) {
	served, err := r.served()
	if err != nil || served.Empty() {
		return false, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(served)
	one := &metav1.PartialObjectMetadata{}
	one.SetGroupVersionKind(served)
	if err := r.Reader.Get(ctx, machine, one); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Machine %s: %w", machine, err)
	} else if err == nil {
		return false, nil
	}
	// A kind that is not served any more isn't found either.
	if err := r.Reader.List(ctx, list, client.InNamespace(machine.Namespace), client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing Machines of namespace %s: %w", machine.Namespace, err)
	}
	return true, nil
}

// served is the kind of Machines as the hub serves them; empty: it doesn't.
func (r *Reconciler) served() (schema.GroupVersionKind, error) {
	for _, k := range kinds() {
		switch _, err := r.Kinds.RESTMapping(k.GroupKind(), k.Version); {
		case err == nil:
			return k, nil
		case !meta.IsNoMatchError(err):
			return schema.GroupVersionKind{}, fmt.Errorf("looking for Machines: %w", err)
		}
	}
	return schema.GroupVersionKind{}, nil
}
