package simulation

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queue is a controller's queue; the caller picks.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // what is not below is not used

	mu  sync.Mutex
	due map[reconcile.Request]time.Time
}

func newQueue() *queue { return &queue{due: map[reconcile.Request]time.Time{}} }

func (q *queue) Add(r reconcile.Request) { q.AddAfter(r, 0) }

func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Now().Add(d)
	if have, ok := q.due[r]; !ok || at.Before(have) {
		q.due[r] = at
	}
}

// pick takes one that is due.
func (q *queue) pick(n func(int) int) (reconcile.Request, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due []reconcile.Request
	now := time.Now()
	for r, at := range q.due {
		if !at.After(now) {
			due = append(due, r)
		}
	}
	if len(due) == 0 {
		return reconcile.Request{}, false
	}
	slices.SortFunc(due, func(a, b reconcile.Request) int { return compareKeys(a.NamespacedName, b.NamespacedName) })
	r := due[n(len(due))]
	delete(q.due, r)
	return r, true
}
