package agent

import (
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// waiting knows since when Services wait for their address. It is safe for concurrent use.
type waiting struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

func newWaiting() *waiting { return &waiting{since: map[types.NamespacedName]time.Time{}} }

func (w *waiting) see(s *v1.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := service.Key(s)
	if _, ok := w.since[key]; !ok && len(s.Status.LoadBalancer.Ingress) == 0 {
		w.since[key] = time.Now()
	}
}

func (w *waiting) done(key types.NamespacedName) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, ok := w.since[key]
	delete(w.since, key)
	return time.Since(since), ok
}

func (w *waiting) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, key)
}
