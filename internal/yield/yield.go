package yield

import (
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

// Way is where urgent writes go first. It is safe for concurrent use.
type Way[K comparable] struct {
	wake func(K)

	mu     sync.Mutex
	recent [many]time.Time // the last urgent writes, a ring
	oldest int
	held   map[K]hold
	armed  bool
}

// hold is since when a key yields. One that was woken yields no more until the burst is over.
type hold struct {
	since time.Time
	woken bool
}

// New returns a Way. wake is told once of each key that yielded, when it need not any more.
func New[K comparable](wake func(K)) *Way[K] {
	return &Way[K]{wake: wake, held: map[K]hold{}}
}

// Urgent notes a write that traffic waits for.
func (w *Way[K]) Urgent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent[w.oldest] = time.Now()
	w.oldest = (w.oldest + 1) % many
}

// Yields says that what is to be written for k, and is not urgent, should not be written now. k is woken later.
func (w *Way[K]) Yields(k K) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.burst(now) {
		return false
	}
	h, ok := w.held[k]
	if !ok {
		w.held[k] = hold{since: now}
		w.arm()
	}
	return !h.woken
}

// burst says whether there is one; w.mu is held.
func (w *Way[K]) burst(now time.Time) bool { return now.Sub(w.recent[w.oldest]) < window }

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
	burst := w.burst(now)
	for k, h := range w.held {
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
