package simulation

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/address"
	"fairlead.dev/fairlead/internal/controller/adoption"
	"fairlead.dev/fairlead/internal/controller/ask"
	"fairlead.dev/fairlead/internal/controller/epoch"
	"fairlead.dev/fairlead/internal/controller/fleet"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/lead"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/controller/loadbalancer"
	"fairlead.dev/fairlead/internal/controller/member"
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
	asks     *ask.Reconciler
	members  *member.Reconciler // nil: Machines aren't played
	lbQueue  *queue
	adQueue  *queue
	tgQueue  *queue
	apQueue  *queue
	epQueue  *queue
	asQueue  *queue
	mbQueue  *queue
	deciding *deciding // nil: no Machines are being reconciled
}

// heard is which proxies say that they serve, or serve on what they had before the hub changed, and the version of each one's Lease.
type heard struct {
	serving map[string]bool
	known   map[string]bool
	frozen  map[string]bool
	leases  map[string]int64
}

func (h heard) clone() heard {
	return heard{maps.Clone(h.serving), maps.Clone(h.known), maps.Clone(h.frozen), maps.Clone(h.leases)}
}

func newManager(w *World, name string) *manager {
	m := &manager{heard: heard{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int64{}}, w: w, name: name, versions: kit.NewVersions(), lbQueue: newQueue(), adQueue: newQueue(), tgQueue: newQueue(), apQueue: newQueue(), epQueue: newQueue(), asQueue: newQueue()}
	m.link = newLink(w, m, loadBalancers, targetGroups, addresses, classes, tenants, proxies, reports, leases, namespaceKind)
	for k := range m.cache {
		m.cache[k] = map[types.NamespacedName]client.Object{}
	}
	m.candidate = newCandidate(w, name, m.link)
	m.guard.OnChange(func(err error) { m.ends = err })
	quiet := slog.New(slog.DiscardHandler)
	cached, live := lead.Client(&cacheClient{m: m}, m.mayWrite), &liveReader{m: m}
	m.fleet = fleet.New(fleet.Options{Logger: quiet, Now: time.Now, Lease: m.readLease, WentBack: m.wentBack})
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
	m.asks = ask.New(ask.Options{Logger: quiet, Client: cached, Fleet: m.fleet})
	m.groups = &targetgroup.Reconciler{Client: cached, Fleet: m.fleet, Versions: m.versions, Queue: &kit.Queue{}, Now: time.Now}
	m.fleet.Subscribe(m.groups.FleetChanged)
	if w.Machines {
		m.newMembers(cached, live)
	}
	return m
}

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

// wentBack hears of versions that do.
func (m *manager) wentBack(what, before, now string) {
	if !m.w.has(OldCaches) {
		m.guard.WentBack(what, before, now)
	}
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
	_ = m.asks.Queue.Start(ctx, m.asQueue)
	if m.members != nil {
		_ = m.members.Queue.Start(ctx, m.mbQueue)
		if err := m.members.All(ctx); err != nil {
			panic(err) // it only reads the cache, which has no faults
		}
	}
	m.asks.Begin()
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
