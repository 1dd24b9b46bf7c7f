package agent

import (
	"sync"
	"time"
)

// observedFor is how long a deletion that was seen is remembered: longer than what was made from the object may still be
// on its way to a cache.
const observedFor = 10 * time.Minute

// observed knows what was seen to be deleted, as against what is missing from a list: a cluster that was restored from an
// older copy, or only half, misses objects that nobody deleted. It is safe for concurrent use.
type observed[K comparable] struct {
	mu     sync.Mutex
	at     map[K]time.Time
	pruned time.Time
}

func newObserved[K comparable]() *observed[K] { return &observed[K]{at: map[K]time.Time{}} }

// deleted notes that k was seen to be deleted.
func (o *observed[K]) deleted(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Sub(o.pruned) > observedFor {
		for k, at := range o.at {
			if now.Sub(at) > observedFor {
				delete(o.at, k)
			}
		}
		o.pruned = now
	}
	o.at[k] = now
}

// lasting notes the same until exists is called, however long that takes.
func (o *observed[K]) lasting(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at[k] = time.Now()
}

// has tells whether k was seen to be deleted.
func (o *observed[K]) has(k K) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.at[k]
	return ok
}

// exists says that k is there.
func (o *observed[K]) exists(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.at, k)
}
