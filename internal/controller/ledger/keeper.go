package ledger

import (
	"context"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes Addresses.
type Writer interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
	Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error
	Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
}

// Reader reads an Address from the API server itself: no cache.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
}

// Options of a Keeper.
type Options struct {
	Logger *slog.Logger
	Client Writer
	Reader Reader
	// Settled says whether every proxy of the pool that may serve has applied the Addresses up to a version.
	Settled func(proxyPool string, addresses proof.Version) bool
	// Trouble says which proxies may serve what the ledger doesn't say; nil: none ever does.
	Trouble func() *proof.Trouble
	// PoolsOf names the AddressPools whose addresses a pool of proxies serves by its classes.
	PoolsOf func(proxyPool string) []string
	// Wake is told of LoadBalancers whose grant changed, or could.
	Wake func(ipam.Ref)
	// Changed is told of pools and namespaces whose sums changed.
	Changed func(pools, namespaces []string)
}

// Keeper keeps the ledger. It is safe for concurrent use.
type Keeper struct {
	Options

	mu        sync.Mutex
	ledger    *ipam.Ledger
	objects   map[string]*record
	passing   map[string]*record      // of objects, those that are being released or kept for a missing holder: few
	buried    map[types.UID]struct{}  // deleted here; late news of them is old
	unwritten map[string]owing        // entries that differ from their object
	adopted   map[string][]ipam.Claim // entries that are to be written by the word of proxies
	disputes  map[string]Dispute
	claimed   claimed
	waiters   map[ipam.Ref]waiter
	lacking   map[ipam.Ref]waiter // hold an address, and not all that they want
	dirty     bool                // waiters may have a chance
	unsettled bool                // one of them waits for proxies to apply what others gave up
	woken     []ipam.Ref
	changed   map[string]struct{} // pools
	changedNS map[string]struct{}

	stripes [64]sync.Mutex // one writer an Address
}

// owing are the LoadBalancers whose changes of an entry are not written yet.
type owing map[ipam.Ref]struct{}

// owe notes that an entry must be written for a LoadBalancer.
func (k *Keeper) owe(name string, r ipam.Ref) {
	if k.unwritten[name] == nil {
		k.unwritten[name] = owing{}
	}
	k.unwritten[name][r] = struct{}{}
}

// owed names the entries that must be written for a LoadBalancer: attempts that failed.
func (k *Keeper) owed(r ipam.Ref) []string {
	var out []string
	for name, refs := range k.unwritten {
		if _, ok := refs[r]; ok {
			out = append(out, name)
		}
	}
	return out
}

// record is an Address as last seen.
type record struct {
	object  *v1alpha1.Address
	version proof.Version
}

type waiter struct {
	ipam.Needs
	reason, message string
}

// New returns a keeper of an empty ledger.
func New(o Options) *Keeper {
	return &Keeper{
		Options: o, ledger: ipam.New(), objects: map[string]*record{}, passing: map[string]*record{}, buried: map[types.UID]struct{}{}, unwritten: map[string]owing{},
		waiters: map[ipam.Ref]waiter{}, lacking: map[ipam.Ref]waiter{}, changed: map[string]struct{}{}, changedNS: map[string]struct{}{},
		adopted: map[string][]ipam.Claim{}, disputes: map[string]Dispute{}, claimed: claimed{},
	}
}

// unlock serves the waiters if they may have a chance, and tells what happened once the lock is off.
func (k *Keeper) unlock() {
	k.serve()
	woken, pools, namespaces := k.woken, keys(k.changed), keys(k.changedNS)
	k.woken = nil
	clear(k.changed)
	clear(k.changedNS)
	k.mu.Unlock()
	for _, r := range woken {
		k.Wake(r)
	}
	if len(pools)+len(namespaces) > 0 {
		k.Changed(pools, namespaces)
	}
}

func keys(m map[string]struct{}) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// put sets an entry of the ledger and notes whose sums that changes.
func (k *Keeper) put(e ipam.Entry) {
	old, had := k.ledger.Get(e.Name)
	if had {
		k.note(old)
	}
	k.note(e)
	k.ledger.Set(e)
	// What e no longer holds of old may be what a waiter wants.
	k.dirty = k.dirty || had
}

// drop removes an entry of the ledger.
func (k *Keeper) drop(name string) {
	if e, ok := k.ledger.Get(name); ok {
		k.note(e)
		k.ledger.Delete(name)
		k.dirty = true
	}
	delete(k.unwritten, name)
	delete(k.adopted, name)
}

func (k *Keeper) note(e ipam.Entry) {
	k.changed[e.Pool] = struct{}{}
	for _, h := range e.Holders {
		k.changedNS[h.Namespace] = struct{}{}
	}
}

// serve gives the waiters what they can have, oldest first.
func (k *Keeper) serve() {
	if !k.dirty || len(k.waiters)+len(k.lacking) == 0 {
		k.dirty = false
		return
	}
	k.dirty, k.unsettled = false, false
	k.freeze()
	queue := make([]waiter, 0, len(k.waiters))
	for _, w := range k.waiters {
		queue = append(queue, w)
	}
	slices.SortFunc(queue, func(a, b waiter) int { return ipam.CompareNeeds(a.Needs, b.Needs) })
	for _, w := range queue {
		d := k.decide(w.Needs)
		switch {
		case !d.Waits():
			k.reserve(d, w.Ref)
			delete(k.waiters, w.Ref)
			k.woken = append(k.woken, w.Ref)
		case d.Reason != w.reason || d.Message != w.message:
			k.waiters[w.Ref] = waiter{w.Needs, d.Reason, d.Message}
			k.woken = append(k.woken, w.Ref)
		}
	}
	for r, w := range k.lacking {
		if d := k.decide(w.Needs); !d.Keeps() || d.Reason != w.reason || d.Message != w.message {
			delete(k.lacking, r)
			k.woken = append(k.woken, r)
		}
	}
}

// reserve notes a decision that must be written.
func (k *Keeper) reserve(d ipam.Decision, r ipam.Ref) {
	for _, s := range d.Steps {
		if s.Action != ipam.Keep {
			k.put(s.Entry)
			k.owe(s.Entry.Name, r)
		}
	}
}

// SetPools replaces the pools.
func (k *Keeper) SetPools(pools []ipam.Pool) {
	k.mu.Lock()
	k.ledger.SetPools(pools)
	clear(k.claimed)
	for _, p := range pools {
		k.changed[p.Name] = struct{}{}
	}
	k.dirty = true
	k.unlock()
}

// SetHosts replaces the own addresses of the proxies' hosts, by pool of proxies: of those that can serve, and of those that are fenced or left.
func (k *Keeper) SetHosts(hosts, away map[string][]netip.Addr) {
	k.mu.Lock()
	k.ledger.SetHosts(hosts, away)
	for _, pool := range k.ledger.OfHosts() {
		k.changed[pool] = struct{}{}
	}
	k.dirty = true
	k.unlock()
}

// OnHosts names the LoadBalancers that hold ports of the hosts of a pool of proxies.
func (k *Keeper) OnHosts(proxyPool string) []ipam.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledger.OnHosts(proxyPool)
}

// RetryUnsettled looks at the waiters again where one waits for proxies: they have come further, or say that the hub has changed.
func (k *Keeper) RetryUnsettled() {
	k.mu.Lock()
	k.dirty = k.dirty || k.unsettled
	k.unlock()
}

// Wait puts LoadBalancers without a grant into the queue before any is served, so that a new leader keeps the order.
func (k *Keeper) Wait(needs []ipam.Needs) {
	k.mu.Lock()
	for _, n := range needs {
		if len(k.ledger.HeldBy(n.Ref)) == 0 {
			k.waiters[n.Ref] = waiter{Needs: n}
		}
	}
	k.dirty = true
	k.unlock()
}

// Leave takes a LoadBalancer out of the queue.
func (k *Keeper) Leave(r ipam.Ref) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiters, r)
	delete(k.lacking, r)
}

// Waiting names the LoadBalancers of a namespace that wait; all with an empty namespace.
func (k *Keeper) Waiting(namespace string) []ipam.Ref {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []ipam.Ref
	for r := range k.waiters {
		if namespace == "" || r.Namespace == namespace {
			out = append(out, r)
		}
	}
	return out
}

// WaitingByReason counts the waiters.
func (k *Keeper) WaitingByReason() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]int{}
	for _, w := range k.waiters {
		out[w.reason]++
	}
	return out
}

// CountsOf counts a pool.
func (k *Keeper) CountsOf(pool string) ipam.Counts {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledger.CountsOf(pool)
}

// UsageOf counts what a namespace holds.
func (k *Keeper) UsageOf(namespace string) ipam.Usage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledger.UsageOf(namespace)
}

// Address is an Address as last seen; nobody changes Object.
type Address struct {
	Object  *v1alpha1.Address
	Version proof.Version
}

// Get returns the Address of that name as last seen.
func (k *Keeper) Get(name string) (Address, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.objects[name]; r != nil {
		return Address{r.object, r.version}, true
	}
	return Address{}, false
}

// Names returns the names of all Addresses.
func (k *Keeper) Names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]string, 0, len(k.objects))
	for name := range k.objects {
		out = append(out, name)
	}
	return out
}

// Releasing returns the Addresses of a pool of proxies that are being released.
func (k *Keeper) Releasing(proxyPool string) []Address {
	return k.filter(func(a *v1alpha1.Address) bool {
		return a.Spec.Phase == v1alpha1.AddressReleasing && a.Spec.ProxyPool == proxyPool
	})
}

// ReleasingInPool returns the Addresses of an AddressPool that are being released.
func (k *Keeper) ReleasingInPool(pool string) []Address {
	return k.filter(func(a *v1alpha1.Address) bool {
		return a.Spec.Phase == v1alpha1.AddressReleasing && a.Spec.Pool == pool
	})
}

// filter returns those of the Addresses that are being released, or kept for a missing holder. That they are asked for whenever
// a proxy says how far it has come must not cost more where more is granted.
func (k *Keeper) filter(keep func(*v1alpha1.Address) bool) []Address {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Address
	for _, r := range k.passing {
		if keep(r.object) {
			out = append(out, Address{r.object, r.version})
		}
	}
	return out
}

// HeldBy returns the entries that name a LoadBalancer, in whatever phase, written or reserved.
func (k *Keeper) HeldBy(r ipam.Ref) []ipam.Entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledger.HeldBy(r)
}

func (k *Keeper) stripe(name string) *sync.Mutex {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return &k.stripes[h.Sum32()%uint32(len(k.stripes))]
}

func (k *Keeper) get(ctx context.Context, name string) (*v1alpha1.Address, error) {
	a := &v1alpha1.Address{}
	return a, k.Reader.Get(ctx, types.NamespacedName{Name: name}, a)
}

func now() time.Time { return time.Now() }
