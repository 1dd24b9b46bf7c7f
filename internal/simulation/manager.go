package simulation

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/address"
	"fairlead.dev/fairlead/internal/controller/adoption"
	"fairlead.dev/fairlead/internal/controller/epoch"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/loadbalancer"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// after an error a controller tries again.
const (
	retryConflict = 20 * time.Millisecond
	retryError    = 500 * time.Millisecond
)

// manager is one process `fairlead manager`: the product's ledger, fleet and
// reconcilers, over a cache that lags. Handlers hear of what is in the cache later.
type manager struct {
	w    *World
	name string
	link *link
	candidate
	// begun: all memory is complete, and workers run.
	begun bool

	cache    [kinds]map[types.NamespacedName]client.Object
	handlers [kinds][]func()

	// heard is what its handlers have heard of proxies.
	heard heard

	fleet    *fleet.Fleet
	keeper   *ledger.Keeper
	versions *kit.Versions
	lbs      *loadbalancer.Reconciler
	addrs    *address.Reconciler
	groups   *targetgroup.Reconciler
	adoption *adoption.Reconciler
	epochs   *epoch.Reconciler
	lbQueue  *queue
	adQueue  *queue
	tgQueue  *queue
	apQueue  *queue
	epQueue  *queue
}

// heard is which proxies say that they serve, and the version of each one's Lease.
type heard struct {
	serving map[string]bool
	known   map[string]bool
	leases  map[string]int64
}

func (h heard) clone() heard {
	return heard{maps.Clone(h.serving), maps.Clone(h.known), maps.Clone(h.leases)}
}

func newManager(w *World, name string) *manager {
	m := &manager{heard: heard{map[string]bool{}, map[string]bool{}, map[string]int64{}}, w: w, name: name, versions: kit.NewVersions(), lbQueue: newQueue(), adQueue: newQueue(), tgQueue: newQueue(), apQueue: newQueue(), epQueue: newQueue()}
	m.identity = w.identity(name)
	m.link = newLink(w, m, loadBalancers, targetGroups, addresses, classes, tenants, proxies, reports, leases, namespaceKind)
	for k := range m.cache {
		m.cache[k] = map[types.NamespacedName]client.Object{}
	}
	quiet := slog.New(slog.DiscardHandler)
	cached, live := &cacheClient{m: m}, &liveReader{m: m}
	m.fleet = fleet.New(fleet.Options{Logger: quiet, Now: time.Now, Lease: m.readLease})
	m.keeper = ledger.New(ledger.Options{
		Logger: quiet, Client: cached, Reader: live, Settled: m.settled, Trouble: m.trouble, PoolsOf: func(string) []string { return []string{poolName} },
		Wake: func(r ipam.Ref) { m.lbs.Wake(r) }, Changed: func([]string, []string) {},
	})
	m.keeper.SetPools(w.pools())
	m.addrs = address.New(address.Options{
		Logger: quiet, Client: cached, Reader: live, Keeper: m.keeper, Fleet: m.fleet, Wake: func(r ipam.Ref) { m.lbs.Wake(r) }, Now: time.Now,
	})
	m.lbs = loadbalancer.New(loadbalancer.Options{
		Logger: quiet, Client: cached, Keeper: m.keeper, Fleet: m.fleet, Versions: m.versions, Addresses: m.addrs.Queue, Now: time.Now,
	})
	m.adoption = adoption.New(adoption.Options{Logger: quiet, Client: cached, Keeper: m.keeper, Fleet: m.fleet})
	m.epochs = epoch.New(epoch.Options{Logger: quiet, Client: cached, Fleet: m.fleet, Now: time.Now})
	m.groups = &targetgroup.Reconciler{Client: cached, Fleet: m.fleet, Versions: m.versions, Queue: &kit.Queue{}, Now: time.Now}
	m.fleet.Subscribe(m.groups.FleetChanged)
	return m
}

func addressAt(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

// settled is what the product's wiring says of a pool of proxies.
func (m *manager) settled(pool string, v proof.Version) bool {
	if m.w.has(SettledAtOnce) {
		return true
	}
	for _, p := range m.fleet.Pool(pool) {
		if !p.Out && (!p.Reported || p.Through.Addresses < v) {
			return false
		}
	}
	return true
}

// trouble is the fleet's.
func (m *manager) trouble() *proof.Trouble {
	if m.w.has(FrozenGranted) {
		return &proof.Trouble{}
	}
	return m.fleet.Trouble()
}

func (m *manager) readLease(_ context.Context, name string) (*coordinationv1.Lease, error) {
	key := types.NamespacedName{Namespace: v1alpha1.SystemNamespace, Name: name}
	if m.w.has(SilentByCache) {
		if o := m.cache[leases][key]; o != nil {
			return o.(*coordinationv1.Lease).DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(leases.resource(), name)
	}
	o, err := m.link.get(leases, key)
	if err != nil {
		return nil, err
	}
	return o.(*coordinationv1.Lease).DeepCopy(), nil
}

// listed is a first list, or one after a gap: what differs is told.
func (m *manager) listed(k kind, all []client.Object, version string) {
	if k == reports {
		list := make([]any, 0, len(all))
		for _, o := range all {
			list = append(list, o)
		}
		m.later(k, func() { _ = m.fleet.Reports().Replace(list, version) })
		return
	}
	first := !m.begun && len(m.cache[k]) == 0
	gone := map[types.NamespacedName]client.Object{}
	for key, o := range m.cache[k] {
		gone[key] = o
	}
	for _, o := range all {
		old := gone[keyOf(o)]
		delete(gone, keyOf(o))
		if old != nil && old.GetUID() != o.GetUID() {
			m.forget(k, old)
			old = nil
		}
		m.set(k, o, first)
	}
	for _, o := range all {
		delete(gone, keyOf(o))
	}
	for _, key := range sortedKeys(gone) {
		m.forget(k, gone[key])
	}
}

func (m *manager) happened(k kind, e event) {
	switch {
	case k == reports && e.gone:
		m.later(k, func() { _ = m.fleet.Reports().Delete(e.object) })
	case k == reports:
		m.later(k, func() { _ = m.fleet.Reports().Update(e.object) })
	case e.gone:
		m.forget(k, e.object)
	default:
		m.set(k, e.object, false)
	}
}

func (m *manager) bookmark(k kind, version string) {
	if k == reports {
		m.later(k, func() { _ = m.fleet.Reports().Bookmark(version) })
	}
}

// later has a handler told, in the order of its resource.
func (m *manager) later(k kind, f func()) { m.handlers[k] = append(m.handlers[k], f) }

// handle tells up to n handlers of a resource.
func (m *manager) handle(k kind, n int) bool {
	if len(m.handlers[k]) == 0 {
		return false
	}
	for ; n > 0 && len(m.handlers[k]) > 0; n-- {
		f := m.handlers[k][0]
		m.handlers[k] = m.handlers[k][1:]
		f()
	}
	return true
}

func (m *manager) set(k kind, o client.Object, first bool) {
	key := keyOf(o)
	m.cache[k][key] = o
	m.later(k, func() {
		switch o := o.(type) {
		case *clusterv1.LoadBalancer:
			m.versions.Of(o)
			m.lbQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.TargetGroup, *v1alpha1.LoadBalancerClass:
			m.versions.Of(o)
			if k == targetGroups {
				m.tgQueue.AddAfter(reconcile.Request{NamespacedName: key}, targetgroup.Pause)
			}
			if first {
				return
			}
			for _, l := range sortedKeys(m.cache[loadBalancers]) {
				if l.Namespace == key.Namespace || key.Namespace == "" {
					m.lbQueue.Add(reconcile.Request{NamespacedName: l})
				}
			}
		case *v1alpha1.Tenant:
			m.epQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Address:
			m.keeper.Observe(o)
			m.adoption.Look()
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Proxy:
			m.fleet.SetProxy(m.heardOf(o))
			m.heard.known[o.Name] = true
			m.heard.serving[o.Name] = o.Status.Phase == v1alpha1.ProxyServing
		case *coordinationv1.Lease:
			switch {
			case o.Name == electionLease:
				return
			case o.Namespace != v1alpha1.SystemNamespace: // an agent's
				m.epQueue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.Namespace}})
				return
			}
			m.heard.leases[o.Name] = versionOf(o)
			if first && !m.w.has(RenewedByList) {
				m.fleet.ListLease(o)
			} else {
				m.fleet.SetLease(o)
			}
		}
	})
}

// heardOf is a Proxy as the fleet hears of it.
func (m *manager) heardOf(p *v1alpha1.Proxy) *v1alpha1.Proxy {
	if m.w.has(ReportsNotAwaited) {
		p = p.DeepCopy()
		p.Status.Reports = ""
	}
	return p
}

func (m *manager) forget(k kind, o client.Object) {
	if m.cache[k][keyOf(o)] != nil {
		delete(m.cache[k], keyOf(o))
	}
	key := keyOf(o)
	m.later(k, func() {
		switch o := o.(type) {
		case *clusterv1.LoadBalancer:
			m.versions.Forget(o)
			m.lbQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.TargetGroup, *v1alpha1.LoadBalancerClass:
			m.versions.Forget(o)
		case *v1alpha1.Address:
			m.keeper.Forget(o)
			m.adoption.Look()
			m.addrs.Forget(o)
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Proxy:
			m.fleet.DeleteProxy(o)
		case *coordinationv1.Lease:
			m.fleet.DeleteLease(o.Name)
		}
	})
}

// begin starts the workers, once all memory is complete.
func (m *manager) begin() {
	if m.begun || !m.leads || !m.link.synced() {
		return
	}
	for _, h := range m.handlers {
		if len(h) > 0 {
			return
		}
	}
	m.begun = true
	ctx := context.Background()
	_ = m.lbs.Queue.Start(ctx, m.lbQueue)
	_ = m.addrs.Queue.Start(ctx, m.adQueue)
	_ = m.groups.Queue.Start(ctx, m.tgQueue)
	_ = m.adoption.Queue.Start(ctx, m.apQueue)
	_ = m.epochs.Queue.Start(ctx, m.epQueue)
	for _, key := range sortedKeys(m.cache[tenants]) {
		m.epQueue.Add(reconcile.Request{NamespacedName: key})
	}
	m.adoption.Look()
	_ = m.lbs.Prime(ctx)
	for _, key := range sortedKeys(m.cache[loadBalancers]) {
		m.lbQueue.Add(reconcile.Request{NamespacedName: key})
	}
	for _, key := range sortedKeys(m.cache[addresses]) {
		m.adQueue.Add(reconcile.Request{NamespacedName: key})
	}
}

// follow lets the fleet tell, and look for silence. It does so on standby, too.
func (m *manager) follow() {
	m.fleet.Tell()
	if m.link.synced() {
		m.fleet.LookForSilent(context.Background())
	}
}

// work reconciles one key of one queue. False: there is none.
func (m *manager) work(q *queue, r reconcile.Reconciler) bool {
	if !m.begun || !m.leads || m.link.cut {
		return false
	}
	req, ok := q.pick(m.w.n)
	if !ok {
		return false
	}
	m.w.working++
	result, err := r.Reconcile(context.Background(), req)
	m.w.working--
	switch {
	case apierrors.IsConflict(err):
		q.AddAfter(req, retryConflict)
	case err != nil && m.w.has(ErrorsForgotten):
	case err != nil:
		m.w.trace("%s: %v", m.name, err)
		q.AddAfter(req, retryError)
	case result.RequeueAfter > 0:
		q.AddAfter(req, result.RequeueAfter)
	}
	return true
}
