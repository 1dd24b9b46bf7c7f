package resolve

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Options.
const (
	DefaultInterval    = 10 * time.Second
	DefaultHold        = 30 * time.Second
	DefaultTimeout     = 5 * time.Second
	DefaultConcurrency = 32
)

// firstPause is the pause after a first lookup that failed; it doubles up to the interval.
const firstPause = time.Second

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
	// Concurrency bounds the lookups in flight.
	Concurrency int
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
	slots   chan struct{}
	changed chan struct{}

	mu     sync.Mutex
	closed bool
	names  map[string]*state
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
	if o.Lookup == nil {
		o.Lookup = lookup
	}
	r := &Resolver{
		o: o, metrics: newMetrics(o.Registerer),
		slots: make(chan struct{}, o.Concurrency), changed: make(chan struct{}, 1),
		names: map[string]*state{}, addresses: map[string][]netip.Addr{},
	}
	var err error
	if r.remembered, err = readFile(o.File); err != nil {
		o.Logger.Warn("what names stood for is forgotten", "err", err)
	}
	return r
}

// SetNames says which names to follow from now on. Those that were followed go
// on undisturbed, new ones are looked up at once, others are forgotten. Changed
// does not tell what this changes by itself.
func (r *Resolver) SetNames(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
		if r.names[name] == nil {
			ctx, stop := context.WithCancel(context.Background())
			s := &state{stop: stop, seen: map[netip.Addr]time.Time{}}
			r.names[name] = s
			if known := r.remembered[name]; len(known) > 0 {
				s.learn(known, time.Now())
				s.settle()
				r.addresses = nil
				delete(r.remembered, name)
			}
			go r.follow(ctx, name, s)
		}
	}
	for name, s := range r.names {
		if !wanted[name] {
			s.stop()
			delete(r.names, name)
			if len(s.addresses) > 0 {
				r.addresses = nil
				r.save()
			}
		}
	}
	r.metrics.names.Set(float64(len(r.names)))
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

// Err is why the last lookup of a name failed; nil if it succeeded, none has ended, or the name is not followed.
func (r *Resolver) Err(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.names[name]; s != nil {
		return s.err
	}
	return nil
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
	pause := firstPause
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case r.slots <- struct{}{}:
		}
		found, err := r.lookup(ctx, name)
		<-r.slots
		if ctx.Err() != nil {
			return
		}
		wait := r.o.Interval
		if !r.settle(name, s, found, err) {
			wait = min(pause, r.o.Interval)
			pause = 2 * wait
		}
		timer.Reset(time.Duration((0.9 + 0.2*rand.Float64()) * float64(wait)))
	}
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

// learn notes addresses of an answer.
func (s *state) learn(found []netip.Addr, now time.Time) {
	for _, a := range found {
		if a = a.Unmap().WithZone(""); a.IsValid() {
			s.seen[a] = now
		}
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
