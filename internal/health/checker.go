package health

import (
	"cmp"
	"container/heap"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// DefaultConcurrency bounds the checks in flight where Options don't: half of them may be one tenant's.
const DefaultConcurrency = 1024

const (
	// suspectWithin is the time in which a suspected address that refuses becomes Unhealthy, and
	// quickGap the longest time between two of those checks.
	suspectWithin = 200 * time.Millisecond
	quickGap      = 50 * time.Millisecond
	// firstHold is how long after a check that succeeded under suspicion the next suspicion has to wait; it doubles each time.
	firstHold = 100 * time.Millisecond
	// together is how much too early a check may begin beside others: each time that the process wakes up costs.
	together = 50 * time.Millisecond
)

// Options of a Checker.
type Options struct {
	Logger *slog.Logger
	// Registerer gets the metrics; nil: nobody does.
	Registerer prometheus.Registerer
	// Concurrency bounds the checks in flight; 0: DefaultConcurrency.
	Concurrency int
}

// Detail is what is known of one probe, for reports.
type Detail struct {
	Verdict lb.Verdict
	// Since is when the verdict came to be.
	Since time.Time
	// Checked is when the last check ended; zero before the first.
	Checked time.Time
	// Err is why the last check failed; nil if it succeeded or none has ended.
	Err error
}

// Checker checks the probes that it is told to. All methods may be called at any time from any goroutine.
type Checker struct {
	log     *slog.Logger
	metrics *metrics
	// ask makes one check.
	ask     func(lb.Probe) error
	changed chan struct{}
	// work goes to a worker that waits for some.
	work chan *state

	mu       sync.Mutex
	closed   bool
	probes   map[lb.Probe]*state
	byTarget map[netip.Addr]map[*state]struct{}
	due      pile[*state]
	places   places
	rounds   uint64 // of SetProbes
	timer    *time.Timer
	verdicts snapshot
}

// state is one probe.
type state struct {
	lb.Probe
	Detail
	// next is when it is due, at its place among those that are not yet, or that wait; -1 while it is checked.
	next time.Time
	at   int
	// wanted is the last round of SetProbes that had it, and by is for whom it was then; of is where it counts.
	wanted         uint64
	by             lb.TenantID
	of             *address
	waits, running bool
	// passed and failed are the streaks.
	passed, failed int
	started        time.Time
	// suspect checks in quick succession; again asks for another check although one is running.
	suspect, again bool
	hold           time.Duration
	removed        bool
}

func (s *state) place() *int          { return &s.at }
func (s *state) before(o *state) bool { return s.next.Before(o.next) }

// New returns a Checker with no probes.
func New(o Options) *Checker {
	return newChecker(o, ask)
}

func newChecker(o Options, ask func(lb.Probe) error) *Checker {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	m := newMetrics(o.Registerer)
	c := &Checker{
		log:      o.Logger,
		metrics:  m,
		ask:      ask,
		changed:  make(chan struct{}, 1),
		work:     make(chan *state),
		probes:   map[lb.Probe]*state{},
		byTarget: map[netip.Addr]map[*state]struct{}{},
		places:   places{limit: o.Concurrency, metrics: m, tenants: map[lb.TenantID]*tenant{}},
		verdicts: newSnapshot(),
	}
	c.timer = time.AfterFunc(time.Hour, c.wake)
	c.timer.Stop()
	return c
}

// SetProbes says what to check from now on, for whom. Probes that were checked
// already go on undisturbed, new ones are checked at once, others are forgotten.
// Probes of CheckNone are passed over. What several tenants want is checked once, and
// counts for the one that wants the fewest.
func (c *Checker) SetProbes(probes map[lb.TenantID]map[lb.Probe]struct{}) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.rounds++
	for _, id := range slices.SortedFunc(maps.Keys(probes), func(a, b lb.TenantID) int {
		return cmp.Or(cmp.Compare(len(probes[b]), len(probes[a])), cmp.Compare(a, b))
	}) {
		for p := range probes[id] {
			if p.Check.Kind == lb.CheckNone || p.Check.Kind == "" {
				continue
			}
			s := c.probes[p]
			if s == nil {
				s = c.add(p, id, now)
			}
			s.wanted, s.by = c.rounds, id
		}
	}
	for _, s := range c.probes {
		switch {
		case s.wanted != c.rounds:
			c.remove(s)
		case s.by != s.of.tenant.id:
			c.places.move(s, c.places.of(s.by, s.Address))
		}
	}
	c.metrics.probes.Set(float64(len(c.probes)))
	c.dispatch(now, 0)
}

func (c *Checker) add(p lb.Probe, id lb.TenantID, now time.Time) *state {
	s := &state{Probe: p, next: now, at: -1, suspect: true}
	s.Since = now
	c.probes[p] = s
	t := c.byTarget[p.Address]
	if t == nil {
		t = map[*state]struct{}{}
		c.byTarget[p.Address] = t
	}
	t[s] = struct{}{}
	c.places.join(s, c.places.of(id, p.Address))
	heap.Push(&c.due, s)
	return s
}

func (c *Checker) remove(s *state) {
	s.removed = true
	delete(c.probes, s.Probe)
	t := c.byTarget[s.Address]
	if delete(t, s); len(t) == 0 {
		delete(c.byTarget, s.Address)
	}
	if !s.waits && !s.running {
		heap.Remove(&c.due, s.at)
	}
	c.places.leave(s)
	if s.Verdict != lb.Unchecked {
		c.verdicts.set(s.Probe, lb.Unchecked)
	}
}

// Suspect says that a connection to address was refused or timed out: all
// probes of it are checked at once. It returns at once.
func (c *Checker) Suspect(address netip.Addr) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for s := range c.byTarget[address] {
		if s.Verdict == lb.Unhealthy {
			continue
		}
		s.suspect = true
		if s.running {
			s.again = true // The check that is running may have begun before.
		}
		if s.running || s.waits {
			continue
		}
		at := now
		if held := s.started.Add(s.hold); held.After(at) {
			at = held
		}
		if at.Before(s.next) {
			s.next = at
			heap.Fix(&c.due, s.at)
		}
	}
	c.dispatch(now, 0)
}

// Verdicts returns what is known now. It is never changed afterwards, and what
// stays the same is shared between one call's and the next's.
func (c *Checker) Verdicts() lb.Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.verdicts.get()
}

// Changed receives a value when Verdicts has something new to say. It has a buffer of one: values coalesce, none is lost.
func (c *Checker) Changed() <-chan struct{} { return c.changed }

// Detail says more about one probe; false if it isn't checked.
func (c *Checker) Detail(p lb.Probe) (Detail, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.probes[p]
	if !ok {
		return Detail{}, false
	}
	return s.Detail, true
}

// Close stops checking. Checks in flight end within their timeout, unheard.
func (c *Checker) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.closed = true
		close(c.work)
	}
	c.timer.Stop()
}

func (c *Checker) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.dispatch(now, together)
}

// dispatch starts the checks that are due, or will be so soon, as far as there are places, and has itself
// called when the next one is due. c.mu is held.
func (c *Checker) dispatch(now time.Time, soon time.Duration) {
	if c.closed {
		return
	}
	for s := c.places.next(); s != nil && c.places.may(s.of); s = c.places.next() {
		c.start(s, now)
	}
	for len(c.due) > 0 && c.due[0].next.Sub(now) <= c.due[0].early(soon) {
		if s := heap.Pop(&c.due).(*state); c.places.may(s.of) {
			c.start(s, now)
		} else {
			c.places.wait(s)
		}
	}
	if len(c.due) > 0 {
		c.timer.Reset(c.due[0].next.Sub(now))
	}
}

func (c *Checker) start(s *state, now time.Time) {
	c.places.begin(s, now)
	s.started, s.again = now, false
	select {
	case c.work <- s:
	default:
		go c.worker(s)
	}
}

// worker makes one check after the other: a new goroutine for each would cost as much as its system calls, for its
// stack has to grow.
func (c *Checker) worker(s *state) {
	for ok := true; ok; s, ok = <-c.work {
		c.check(s)
	}
}

func (c *Checker) check(s *state) {
	err := c.ask(s.Probe)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places.end(s)
	if !s.removed && !c.closed {
		c.settle(s, err, now)
		heap.Push(&c.due, s)
	}
	c.dispatch(now, 0)
}

// settle takes the result of a check of s into account.
func (c *Checker) settle(s *state, err error, now time.Time) {
	c.metrics.count(s.Check.Kind, err)
	s.Checked, s.Err = now, err
	verdict := s.Verdict
	if err == nil {
		s.passed, s.failed = s.passed+1, 0
		if s.Verdict == lb.Unchecked || s.passed >= s.Check.Rise {
			verdict = lb.Healthy
		}
	} else {
		s.passed, s.failed = 0, s.failed+1
		if s.failed >= s.Check.Fall {
			verdict = lb.Unhealthy
		}
	}
	s.next = now.Add(s.pause(err, verdict, now.Sub(s.started)))
	if verdict == s.Verdict {
		return
	}
	c.log.Debug("verdict changed", "address", s.Address, "check", s.Check.String(), "verdict", verdict, "before", s.Verdict, "err", err)
	s.Verdict, s.Since = verdict, now
	c.verdicts.set(s.Probe, verdict)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// pause is the time until the next check, after one with this result that took so long.
func (s *state) pause(err error, verdict lb.Verdict, took time.Duration) time.Duration {
	switch {
	case err != nil && s.suspect && verdict != lb.Unhealthy:
		s.hold = 0
		return min(quickGap, suspectWithin/time.Duration(max(1, s.Check.Fall)))
	case err == nil && s.suspect:
		s.hold = min(max(2*s.hold, firstHold), s.Check.Interval)
	default:
		s.hold = 0
	}
	s.suspect = s.again
	if s.again {
		return s.hold
	}
	// Probes that began together drift apart.
	every := time.Duration((0.9 + 0.2*rand.Float64()) * float64(s.Check.Interval))
	if err != nil && verdict != lb.Unhealthy {
		return max(every-took, min(every, quickGap)) // one that hung is asked again as soon as one that refused
	}
	return every
}

// early is how much before it is due a check may begin: a twentieth of its interval at most, and not where it is
// suspected, for failures in a row must not be of one moment.
func (s *state) early(most time.Duration) time.Duration {
	if s.suspect {
		return 0
	}
	return min(most, s.Check.Interval/20)
}
