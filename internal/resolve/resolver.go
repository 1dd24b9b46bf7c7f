package resolve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options.
const (
	DefaultInterval    = 10 * time.Second
	DefaultHold        = 30 * time.Second
	DefaultTimeout     = 5 * time.Second
	DefaultConcurrency = 32
	DefaultPerTenant   = 256
)

const (
	// firstPause is the pause after a first lookup that failed; it doubles up to lastPause.
	firstPause = time.Second
	// lastPause bounds the pause after a lookup that failed, in intervals.
	lastPause = 3
	// maxAddresses are kept of one name: who runs its zone may answer with thousands.
	maxAddresses = 256
)

// Lookup returns the addresses of a name, in any order. (*net.Resolver).LookupNetIP, for both families, is one.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// Options of a Resolver. What is 0 or nil has the default above.
type Options struct {
	Logger *slog.Logger
	// Registerer gets the metrics; nil: nobody does.
	Registerer prometheus.Registerer
	// Interval between two lookups of a name, within a tenth.
	Interval time.Duration
	// Hold is how long an address is used that is missing from the answers.
	Hold time.Duration
	// Timeout of one lookup.
	Timeout time.Duration
	// Concurrency bounds the lookups in flight. One tenant may have a quarter of them.
	Concurrency int
	// PerTenant bounds the names that one tenant has looked up.
	PerTenant int
	// File remembers what names stand for: what is known of a name when this process starts. Empty: nothing is.
	File string
	// Lookup asks; default: the name servers of this host's resolv.conf.
	Lookup Lookup
}

// lookup asks as this host is set up to. A name without a dot may be one of its hosts file.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name = strings.TrimSuffix(name, ".") + "."
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// Resolver follows the names that it is told to. All methods may be called at any time from any goroutine.
type Resolver struct {
	o       Options
	metrics *metrics
	turns   *turns
	changed chan struct{}

	mu     sync.Mutex
	closed bool
	names  map[string]*state
	// excess names are wanted, and not followed; why not.
	excess map[string]error
	// addresses is what Addresses gave out, until something in it changes.
	addresses map[string][]netip.Addr
	// remembered are those of names of the file that were not asked for yet.
	remembered map[string][]netip.Addr
	// saving: the file is to be written.
	saving bool
}

// state is one name.
type state struct {
	stop context.CancelFunc
	// tenant whose lookup it is; of those that want the name it wants the fewest.
	tenant lb.TenantID
	// seen is when each address was last in an answer.
	seen      map[netip.Addr]time.Time
	addresses []netip.Addr
	err       error
}

// New returns a Resolver that follows no name yet.
func New(o Options) *Resolver {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.PerTenant <= 0 {
		o.PerTenant = DefaultPerTenant
	}
	if o.Lookup == nil {
		o.Lookup = lookup
	}
	r := &Resolver{
		o: o, metrics: newMetrics(o.Registerer),
		turns: newTurns(o.Concurrency), changed: make(chan struct{}, 1),
		names: map[string]*state{}, addresses: map[string][]netip.Addr{},
	}
	var err error
	if r.remembered, err = readFile(o.File); err != nil {
		o.Logger.Warn("what names stood for is forgotten", "err", err)
	}
	return r
}

// SetNames says which names to follow from now on, for whom. Those that were
// followed go on undisturbed, new ones are looked up at once, as many as a tenant
// may have; others are forgotten. Changed does not tell what this changes by itself.
func (r *Resolver) SetNames(names map[lb.TenantID][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	owners := ownersOf(names)
	for name, s := range r.names {
		if _, ok := owners[name]; !ok {
			s.stop()
			delete(r.names, name)
			if len(s.addresses) > 0 {
				r.addresses = nil
				r.save()
			}
		}
	}
	has := map[lb.TenantID]int{}
	var fresh []string
	for name, tenant := range owners {
		if s := r.names[name]; s != nil {
			s.tenant = tenant
			has[tenant]++
		} else {
			fresh = append(fresh, name)
		}
	}
	// What is known from before comes first: something is served there.
	slices.SortFunc(fresh, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(r.remembered[b]), len(r.remembered[a])), strings.Compare(a, b))
	})
	r.excess = map[string]error{}
	for _, name := range fresh {
		tenant := owners[name]
		if has[tenant]++; has[tenant] > r.o.PerTenant {
			r.excess[name] = fmt.Errorf("it is not looked up, the tenant's targets have more than %d names, and others came first: use fewer names, or addresses", r.o.PerTenant)
			continue
		}
		r.begin(name, tenant)
	}
	r.metrics.names.Set(float64(len(r.names)))
}

// begin follows a name; r.mu is held.
func (r *Resolver) begin(name string, tenant lb.TenantID) {
	ctx, stop := context.WithCancel(context.Background())
	s := &state{stop: stop, tenant: tenant, seen: map[netip.Addr]time.Time{}}
	r.names[name] = s
	if known := r.remembered[name]; len(known) > 0 {
		s.learn(known, time.Now())
		s.settle()
		r.addresses = nil
		delete(r.remembered, name)
	}
	go r.follow(ctx, name, s)
}

// ownersOf says for whom each name is looked up: of those that want it, who wants the fewest names.
func ownersOf(names map[lb.TenantID][]string) map[string]lb.TenantID {
	out := map[string]lb.TenantID{}
	for tenant, of := range names {
		for _, name := range of {
			other, ok := out[name]
			if !ok || cmp.Or(cmp.Compare(len(of), len(names[other])), cmp.Compare(tenant, other)) < 0 {
				out[name] = tenant
			}
		}
	}
	return out
}

// Addresses returns what is known now: each name's addresses, sorted, each once;
// names of which nothing is known are missing. It is never changed afterwards,
// and the same map as before if nothing changed.
func (r *Resolver) Addresses() map[string][]netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known()
}

// known is what Addresses gives out; r.mu is held.
func (r *Resolver) known() map[string][]netip.Addr {
	if r.addresses == nil {
		r.addresses = make(map[string][]netip.Addr, len(r.names))
		for name, s := range r.names {
			if len(s.addresses) > 0 {
				r.addresses[name] = s.addresses
			}
		}
	}
	return r.addresses
}

// Changed receives a value when Addresses or Err has something new to say. It has a buffer of one: values coalesce, none is lost.
func (r *Resolver) Changed() <-chan struct{} { return r.changed }

// Err is why the last lookup of a name failed, or why there is none; nil if it succeeded, none has ended, or nobody wants the name.
func (r *Resolver) Err(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.names[name]; s != nil {
		return s.err
	}
	return r.excess[name]
}

// Close stops following. Lookups in flight end soon, unheard.
func (r *Resolver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.saving {
		r.write()
	}
	r.closed = true
	for _, s := range r.names {
		s.stop()
	}
}

// follow looks a name up until ctx ends.
func (r *Resolver) follow(ctx context.Context, name string, s *state) {
	failures := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		done, ok := r.turns.take(ctx, r.tenantOf(s))
		if !ok {
			return
		}
		found, err := r.lookup(ctx, name)
		done()
		if ctx.Err() != nil {
			return
		}
		wait := r.o.Interval
		if known := r.settle(name, s, found, err); known && err == nil {
			failures = 0
		} else {
			from := firstPause
			if known {
				from = r.o.Interval
			}
			wait = min(from<<min(failures, 16), lastPause*r.o.Interval)
			failures++
		}
		timer.Reset(time.Duration((0.9 + 0.2*rand.Float64()) * float64(wait)))
	}
}

func (r *Resolver) tenantOf(s *state) lb.TenantID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.tenant
}

func (r *Resolver) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	found, err := r.o.Lookup(ctx, name)
	return found, err
}

// settle takes an answer into account, and says whether anything is known of the name.
func (r *Resolver) settle(name string, s *state, found []netip.Addr, err error) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics.count(err)
	if r.names[name] != s {
		return true
	}
	if (err == nil) != (s.err == nil) {
		r.tell()
	}
	s.err = err
	if err != nil {
		r.o.Logger.Debug("name can't be looked up", "name", name, "err", err)
		return len(s.addresses) > 0
	}
	s.learn(found, now)
	maps.DeleteFunc(s.seen, func(_ netip.Addr, at time.Time) bool { return now.Sub(at) > r.o.Hold })
	if before := s.addresses; s.settle() {
		r.o.Logger.Debug("addresses of a name changed", "name", name, "addresses", s.addresses, "before", before)
		r.addresses = nil
		r.save()
		r.tell()
	}
	return len(s.addresses) > 0
}

// tell says that something changed.
func (r *Resolver) tell() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// learn notes addresses of an answer. Of too many it keeps the last seen, and of those what is used already.
func (s *state) learn(found []netip.Addr, now time.Time) {
	for _, a := range found {
		if a = a.Unmap().WithZone(""); a.IsValid() {
			s.seen[a] = now
		}
	}
	if len(s.seen) <= maxAddresses {
		return
	}
	used := make(map[netip.Addr]int, len(s.addresses))
	for _, a := range s.addresses {
		used[a] = 1
	}
	all := slices.SortedFunc(maps.Keys(s.seen), func(a, b netip.Addr) int {
		return cmp.Or(s.seen[b].Compare(s.seen[a]), cmp.Compare(used[b], used[a]), a.Compare(b))
	})
	for _, a := range all[maxAddresses:] {
		delete(s.seen, a)
	}
}

// settle says whether the name stands for something else now.
func (s *state) settle() bool {
	next := slices.SortedFunc(maps.Keys(s.seen), netip.Addr.Compare)
	if slices.Equal(next, s.addresses) {
		return false
	}
	s.addresses = next
	return true
}
