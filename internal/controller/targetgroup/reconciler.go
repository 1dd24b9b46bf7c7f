package targetgroup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Pause is the least time between a report and the status that it changes.
const Pause = time.Second

// Reconciler reconciles TargetGroups.
type Reconciler struct {
	Client   client.Client
	Fleet    *fleet.Fleet
	Versions *kit.Versions
	Queue    *kit.Queue
	Now      func() time.Time

	mu sync.Mutex
	// pins of the targets of groups of Machines and Nodes, by the UIDs of both.
	pins map[types.UID]map[string]pinned
	// waiting are the groups of Machines and Nodes that wait for proxies.
	waiting map[types.NamespacedName]struct{}
}

// FleetChanged writes the groups that proxies reported on soon, and those of Machines and Nodes that wait for proxies.
func (r *Reconciler) FleetChanged(c fleet.Change) {
	for key := range c.TargetGroups {
		r.Queue.AddAfter(key.Namespace, key.Name, Pause)
	}
	if len(c.Pools) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.waiting {
		r.Queue.AddAfter(key.Namespace, key.Name, Pause)
	}
}

// Forget drops what is remembered of a group that is gone.
func (r *Reconciler) Forget(g *v1alpha1.TargetGroup) {
	r.Versions.Forget(g)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, client.ObjectKeyFromObject(g))
	delete(r.pins, g.UID)
}

// Reconcile writes one group's status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	g := &v1alpha1.TargetGroup{}
	if err := r.Client.Get(ctx, req.NamespacedName, g); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("reading TargetGroup %s: %w", req, err)
		}
		_, _, err = r.admit(ctx, req.NamespacedName) // there may be room now
		return reconcile.Result{}, err
	}
	if g.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	tenant, admission, err := r.admit(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	proxies, err := r.proxies(ctx, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	f := facts{group: g, tenant: tenant, admission: admission, version: r.Versions.Of(g), proxies: proxies, now: metav1.NewTime(r.Now())}
	if f.apart, err = r.apart(ctx, g); err != nil {
		return reconcile.Result{}, err
	}
	if ofMembers(g) {
		f.since = r.since(g)
	}
	next := g.DeepCopy()
	next.Status = describe(f)
	r.waits(g, &next.Status)
	if _, err := kit.PatchStatus(ctx, r.Client, g, next); err != nil {
		return reconcile.Result{}, fmt.Errorf("TargetGroup %s: %w", req, err)
	}
	for _, m := range next.Status.Targets {
		if m.State == draining && f.apart == "" {
			// A proxy that says no more than how far it has come is heard with its next Lease.
			return reconcile.Result{RequeueAfter: 10 * time.Second}, nil
		}
	}
	return reconcile.Result{}, nil
}

// admit judges what the Tenant of a group's namespace may have, and looks soon at the other groups there whose status says otherwise.
func (r *Reconciler) admit(ctx context.Context, of types.NamespacedName) (*v1alpha1.Tenant, build.Admission, error) {
	tenant, err := kit.TenantOf(ctx, r.Client, of.Namespace)
	if err != nil {
		return nil, build.Admission{}, err
	}
	groups, a, err := kit.Admit(ctx, r.Client, of.Namespace, tenant)
	if err != nil {
		return nil, build.Admission{}, err
	}
	for _, g := range groups {
		if g.Name != of.Name && g.DeletionTimestamp == nil && !slices.Equal(g.Status.WithinQuota, a.Within(g)) {
			r.Queue.AddAfter(g.Namespace, g.Name, Pause)
		}
	}
	return tenant, a, nil
}

// Proxies are those that may have connections to the group's targets, sorted by name.
func (r *Reconciler) Proxies(ctx context.Context, g *v1alpha1.TargetGroup) ([]*proof.Proxy, error) {
	return r.proxies(ctx, g)
}

// proxies are those that may have connections to the group's targets, sorted by name: those of the pools of all classes
// whose LoadBalancers send to it, and, for connections that outlive their LoadBalancer, those of the pools of all
// addresses that the namespace still holds, and those that say so. Whoever serves on what it had before the hub changed is asked, too, or
// may yet say so.
func (r *Reconciler) proxies(ctx context.Context, g *v1alpha1.TargetGroup) ([]*proof.Proxy, error) {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(g.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the LoadBalancers of namespace %s: %w", g.Namespace, err)
	}
	classes := map[string]struct{}{}
	for i := range list.Items {
		l := &list.Items[i]
		if _, known := classes[l.Spec.ClassName]; known || l.Spec.ClassName == "" {
			continue
		}
		if s, err := build.Selector(l); err == nil && s.Matches(labels.Set(g.Labels)) {
			classes[l.Spec.ClassName] = struct{}{}
		}
	}
	pools := map[string]struct{}{}
	for name := range classes {
		class := &v1alpha1.LoadBalancerClass{}
		if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, class); err != nil {
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading class %s: %w", name, err)
			}
			continue
		}
		if class.Spec.Proxy != nil {
			pools[class.Spec.Proxy.Pool] = struct{}{}
		}
	}
	if drains(g) {
		if err := r.holding(ctx, g.Namespace, pools); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(r.Fleet.All(), func(p *proof.Proxy) bool {
		_, asked := pools[p.Pool]
		serves := drains(g) && servesOn(p, g)
		return !asked && !serves && !reportsDraining(p, g)
	}), nil
}

// holding adds the pools of proxies of the addresses that a namespace holds, in whatever phase.
func (r *Reconciler) holding(ctx context.Context, namespace string, pools map[string]struct{}) error {
	list := &v1alpha1.AddressList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the addresses of namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		a := &list.Items[i].Spec
		if slices.ContainsFunc(a.Holders, func(h v1alpha1.Holder) bool { return h.Namespace == namespace }) {
			pools[a.ProxyPool] = struct{}{}
		}
	}
	return nil
}

func drains(g *v1alpha1.TargetGroup) bool {
	for i := range g.Spec.Targets {
		if g.Drains(i) {
			return true
		}
	}
	return false
}

// servesOn says that a proxy may serve what this hub doesn't know in the group's namespace. Those of other namespaces concern
// nobody here. One that is registered and has written no status yet may be about to say so, and so may one that this manager has not heard of.
func servesOn(p *proof.Proxy, g *v1alpha1.TargetGroup) bool {
	return p.Boot == "" || p.Unheard() || p.Frozen() || p.HubChanged != "" && slices.Contains(p.Held, g.Namespace)
}

// reportsDraining says that a proxy names connections to a target of the group.
func reportsDraining(p *proof.Proxy, g *v1alpha1.TargetGroup) bool {
	r := p.Reports[g.Namespace]
	return r != nil && slices.ContainsFunc(r.Members, func(m v1alpha1.ReportedMember) bool {
		return m.GroupUID == string(g.UID) && m.State == v1alpha1.ReportedDraining
	})
}
