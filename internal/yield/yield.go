package yield

import (
	"maps"
	"sync"
	"time"
)

const (
	// many urgent writes within window are a burst.
	many   = 8
	window = 500 * time.Millisecond
	// most is how long a write yields at most.
	most = 3 * time.Second
	// look is the time between two looks whether a burst is over.
	look = 100 * time.Millisecond
)

// Way is where urgent writes go first. Keys of one lane, such as a tenant, yield to the urgent writes of that lane
// only: nobody waits for others' bursts. It is safe for concurrent use.
type Way[K comparable] struct {
	lane func(K) string
	wake func(K)

	mu    sync.Mutex
	lanes map[string]*recent
	held  map[K]hold
	armed bool
}

// recent are the last urgent writes of a lane, a ring.
type recent struct {
	at     [many]time.Time
	oldest int
}

// hold is since when a key yields. One that was woken yields no more until the burst is over.
type hold struct {
	since time.Time
	woken bool
}

// New returns a Way. lane says to whose burst a key belongs; wake is told once of each key that yielded, when it need
// not any more.
func New[K comparable](lane func(K) string, wake func(K)) *Way[K] {
	return &Way[K]{lane: lane, wake: wake, lanes: map[string]*recent{}, held: map[K]hold{}}
}

// Urgent notes a write for k that traffic waits for.
func (w *Way[K]) Urgent(k K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, lane := time.Now(), w.lane(k)
	r := w.lanes[lane]
	if r == nil {
		maps.DeleteFunc(w.lanes, func(_ string, r *recent) bool { return now.Sub(r.newest()) >= window })
		r = &recent{}
		w.lanes[lane] = r
	}
	r.at[r.oldest] = now
	r.oldest = (r.oldest + 1) % many
}

func (r *recent) newest() time.Time { return r.at[(r.oldest+many-1)%many] }

// Yields says that what is to be written for k, and is not urgent, should not be written now. k is woken later.
func (w *Way[K]) Yields(k K) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.burst(k, now) {
		return false
	}
	h, ok := w.held[k]
	if !ok {
		w.held[k] = hold{since: now}
		w.arm()
	}
	return !h.woken
}

// burst says whether there is one in k's lane; w.mu is held.
func (w *Way[K]) burst(k K, now time.Time) bool {
	r := w.lanes[w.lane(k)]
	return r != nil && now.Sub(r.at[r.oldest]) < window
}

// arm has held looked at soon; w.mu is held.
func (w *Way[K]) arm() {
	if !w.armed {
		w.armed = true
		time.AfterFunc(look, w.look)
	}
}

// look wakes who need not yield any more.
func (w *Way[K]) look() {
	var woken []K
	w.mu.Lock()
	now := time.Now()
	for k, h := range w.held {
		burst := w.burst(k, now)
		switch {
		case h.woken && !burst:
			delete(w.held, k)
		case !h.woken && (!burst || now.Sub(h.since) >= most):
			w.held[k] = hold{h.since, true}
			woken = append(woken, k)
		}
	}
	w.armed = false
	if len(w.held) > 0 {
		w.arm()
	}
	w.mu.Unlock()
	for _, k := range woken {
		w.wake(k)
	}
}
