package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Change says whose views differ from what they were. LoadBalancers and
// TargetGroups are named where a proxy's exceptions about them changed.
type Change struct {
	Pools         map[string]struct{}
	LoadBalancers map[types.NamespacedName]struct{}
	TargetGroups  map[types.NamespacedName]struct{}
}

func newChange() Change {
	return Change{map[string]struct{}{}, map[types.NamespacedName]struct{}{}, map[types.NamespacedName]struct{}{}}
}

func (c *Change) empty() bool { return len(c.Pools)+len(c.LoadBalancers)+len(c.TargetGroups) == 0 }

// Options of a Fleet.
type Options struct {
	Logger *slog.Logger
	// Now is a monotonic clock.
	Now func() time.Time
	// Lease reads a proxy's Lease from the API server itself, before the proxy is taken for silent.
	Lease func(ctx context.Context, name string) (*coordinationv1.Lease, error)
	// WentBack hears of a list of ProxyReports that is older than what was known: the hub is an older copy. nil: nobody does.
	WentBack func(what, before, now string)
}

// Fleet is safe for concurrent use.
type Fleet struct {
	log   *slog.Logger
	now   func() time.Time
	lease func(ctx context.Context, name string) (*coordinationv1.Lease, error)
	// wentBack is never nil.
	wentBack func(what, before, now string)

	mu       sync.Mutex
	proxies  map[string]*v1alpha1.Proxy
	leases   map[string]leaseWord
	silent   map[string]bool // Leases that were live and aren't
	liveness *proof.Liveness
	reports  map[string]map[string]*v1alpha1.ProxyReport // by proxy, then namespace
	reached  proof.Version
	views    map[string][]*proof.Proxy // by pool; a pool that is missing is built when asked for
	trouble  *proof.Trouble            // nil: built when asked for
	change   Change
	subs     []func(Change)

	wake    chan struct{}
	rearm   chan struct{}
	reading chan struct{} // closed once the first list of reports is in
	once    sync.Once
}

// leaseWord is what a proxy's Lease repeats.
type leaseWord struct {
	boot    string
	through proof.Vector
	// seq of the status that through belongs to.
	seq int64
}

// New returns a Fleet that knows nothing.
func New(o Options) *Fleet {
	if o.WentBack == nil {
		o.WentBack = func(string, string, string) {}
	}
	return &Fleet{
		log: o.Logger, now: o.Now, lease: o.Lease, wentBack: o.WentBack,
		proxies: map[string]*v1alpha1.Proxy{}, leases: map[string]leaseWord{}, silent: map[string]bool{}, liveness: proof.NewLiveness(),
		reports: map[string]map[string]*v1alpha1.ProxyReport{}, views: map[string][]*proof.Proxy{}, change: newChange(),
		wake: make(chan struct{}, 1), rearm: make(chan struct{}, 1), reading: make(chan struct{}),
	}
}

// Subscribe calls f with each change, one at a time. It must be called before Start.
func (f *Fleet) Subscribe(fn func(Change)) { f.subs = append(f.subs, fn) }

// Pool returns the proxies of a pool sorted by name. The slice is shared.
func (f *Fleet) Pool(pool string) []*proof.Proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pool(pool)
}

func (f *Fleet) pool(pool string) []*proof.Proxy {
	views, ok := f.views[pool]
	if !ok {
		for _, p := range f.proxies {
			if p.Spec.Pool == pool {
				views = append(views, f.view(p))
			}
		}
		slices.SortFunc(views, func(a, b *proof.Proxy) int { return cmp.Compare(a.Name, b.Name) })
		f.views[pool] = views
	}
	return views
}

// All returns the proxies of all pools.
func (f *Fleet) All() []*proof.Proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all()
}

func (f *Fleet) all() []*proof.Proxy {
	pools := map[string]struct{}{}
	for _, p := range f.proxies {
		pools[p.Spec.Pool] = struct{}{}
	}
	var out []*proof.Proxy
	for pool := range pools {
		out = append(out, f.pool(pool)...)
	}
	slices.SortFunc(out, func(a, b *proof.Proxy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Trouble is why nothing may be granted or freed by the ledger alone. It is shared.
func (f *Fleet) Trouble() *proof.Trouble {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trouble == nil {
		t := proof.JudgeTrouble(f.all())
		f.trouble = &t
	}
	return f.trouble
}

// LastSeen is when a proxy's Lease was last seen renewed; the zero time: never.
func (f *Fleet) LastSeen(proxy string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.liveness.LastSeen(proxy)
}

// view joins what is known of one proxy; f.mu is held.
func (f *Fleet) view(p *v1alpha1.Proxy) *proof.Proxy {
	written, err := proof.ParseVersion(p.Status.Reports)
	v := &proof.Proxy{
		Name: p.Name, Pool: p.Spec.Pool, Boot: p.Status.Boot,
		Live:     !f.silent[p.Name] && !f.liveness.LastSeen(p.Name).IsZero(),
		Renewed:  f.liveness.Renewed(p.Name),
		Out:      p.Spec.Fenced != nil || p.Status.Phase == v1alpha1.ProxyLeft,
		Reported: p.Status.Boot != "" && p.Status.Phase == v1alpha1.ProxyServing,
		Settled:  err == nil && f.reached >= written,
		Held:     p.Status.Held,
		Epoch:    p.Status.Epoch, Thawed: p.Status.ThawedEpoch, OnMachine: p.Spec.MachineRef != nil,
		Through: proof.ParseThrough(p.Status.Through),
		Reports: map[string]*v1alpha1.ProxyReport{},
	}
	for _, text := range p.Spec.Addresses {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsUnspecified() { // else it is nobody's to reach
			v.Addresses = append(v.Addresses, a.Unmap())
		}
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionHubChanged); c != nil && c.Status == metav1.ConditionTrue {
		v.HubChanged = c.Reason
	}
	switch word := f.leases[p.Name]; word.boot {
	case "":
	case p.Status.Boot:
		// A status that the Lease knows and that isn't here yet may say that the hub has changed.
		v.Renewed = v.Renewed && word.seq <= p.Status.Seq
		// What a later status said of exceptions isn't known here yet. What an earlier one said may have been taken
		// back since: the versions of a hub that has changed mean something else.
		if p.Status.Seq == word.seq || word.seq == 0 && v.HubChanged == "" {
			v.Through = v.Through.Max(word.through)
		}
	default:
		// Another process renews the Lease than the one that reported. Either that one is gone, or this one: their
		// watches lag each other.
		v.Passing, v.Reported, v.Renewed = v.Reported, false, false
	}
	for namespace, r := range f.reports[p.Name] {
		switch {
		case r.Boot == p.Status.Boot:
			v.Reports[namespace] = r
		case v.Reported:
			// A boot that serves has replaced the reports of those before it. So this is of one after it, whose status
			// isn't here yet, or of one before it, where it can't write.
			v.Held = append(slices.Clip(v.Held), namespace)
		}
	}
	return v
}

// touch notes that a pool's views changed; f.mu is held.
func (f *Fleet) touch(pool string) {
	delete(f.views, pool)
	f.trouble = nil
	f.change.Pools[pool] = struct{}{}
	f.notify()
}

func (f *Fleet) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// SetProxy notes a Proxy.
func (f *Fleet) SetProxy(p *v1alpha1.Proxy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.proxies[p.Name]
	if old != nil && old.Spec.Pool != p.Spec.Pool {
		f.touch(old.Spec.Pool)
	}
	if old == nil || old.Status.Boot != p.Status.Boot {
		f.recount(p.Name)
	}
	f.proxies[p.Name] = p
	f.touch(p.Spec.Pool)
}

// recount notes whom a proxy's reports concern: they begin or end to count; f.mu is held.
func (f *Fleet) recount(proxy string) {
	for namespace, r := range f.reports[proxy] {
		for _, x := range slices.Concat(r.Refused, r.ServedWithout) {
			f.change.LoadBalancers[types.NamespacedName{Namespace: namespace, Name: x.LoadBalancer}] = struct{}{}
		}
		for _, m := range r.Members {
			f.change.TargetGroups[types.NamespacedName{Namespace: namespace, Name: m.TargetGroup}] = struct{}{}
		}
	}
}

// DeleteProxy forgets a Proxy.
func (f *Fleet) DeleteProxy(p *v1alpha1.Proxy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.proxies[p.Name]; old != nil && old.UID == p.UID {
		delete(f.proxies, p.Name)
		f.recount(p.Name)
		f.touch(old.Spec.Pool)
	}
}

// ListLease notes a proxy's Lease of the first list: nobody saw it renewed yet.
func (f *Fleet) ListLease(l *coordinationv1.Lease) {
	f.mu.Lock()
	f.liveness.List(l.Name, renewal(l), f.now())
	f.mu.Unlock()
	f.SetLease(l)
}

func renewal(l *coordinationv1.Lease) string {
	if l.Spec.RenewTime == nil {
		return ""
	}
	return l.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
}

// SetLease notes a proxy's Lease.
func (f *Fleet) SetLease(l *coordinationv1.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wasLive, wasRenewed := !f.silent[l.Name] && !f.liveness.LastSeen(l.Name).IsZero(), f.liveness.Renewed(l.Name)
	if f.liveness.See(l.Name, renewal(l), f.now()) {
		delete(f.silent, l.Name)
		select {
		case f.rearm <- struct{}{}:
		default:
		}
	}
	word := leaseWord{boot: l.Annotations[v1alpha1.AnnotationBoot]}
	if s := l.Annotations[v1alpha1.AnnotationThrough]; s != "" {
		var t v1alpha1.Through
		if err := json.Unmarshal([]byte(s), &t); err != nil {
			f.log.Warn("a proxy's lease repeats no readable through", "proxy", l.Name, "err", err)
		} else {
			word.through = proof.ParseThrough(t)
		}
	}
	if s := l.Annotations[v1alpha1.AnnotationSeq]; s != "" {
		seq, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			f.log.Warn("a proxy's lease names no readable seq", "proxy", l.Name, "err", err)
			word.through = proof.Vector{}
		}
		word.seq = seq
	}
	before, known := f.leases[l.Name]
	changed := !known || word != before || wasRenewed != f.liveness.Renewed(l.Name) || !wasLive
	f.leases[l.Name] = word
	if p := f.proxies[l.Name]; p != nil && changed {
		f.touch(p.Spec.Pool)
	}
}

// DeleteLease forgets a proxy's Lease.
func (f *Fleet) DeleteLease(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.liveness.Forget(name)
	delete(f.leases, name)
	delete(f.silent, name)
	if p := f.proxies[name]; p != nil {
		f.touch(p.Spec.Pool)
	}
}
