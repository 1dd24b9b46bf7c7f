package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// since knows since when something holds for Services. It is safe for concurrent use.
type since struct {
	mu    sync.Mutex
	began map[types.NamespacedName]time.Time
}

func newSince() *since { return &since{began: map[types.NamespacedName]time.Time{}} }

// holds says that it holds for key, and returns for how long it has.
func (s *since) holds(key types.NamespacedName) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	began, ok := s.began[key]
	if !ok {
		began = time.Now()
		s.began[key] = began
	}
	return time.Since(began)
}

// ends says that it holds no more, and returns for how long it had; false if it hadn't.
func (s *since) ends(key types.NamespacedName) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began, ok := s.began[key]
	delete(s.began, key)
	return time.Since(began), ok
}
