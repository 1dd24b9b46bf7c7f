package agent

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unseen bounds how long a write may go without being seen by the cache. A watch that
// began anew may have missed it: the object was changed again, or is gone.
const unseen = 10 * time.Second

// memory knows what was written and may not have reached the cache yet. It is safe for
// concurrent use. W is what was written.
type memory[W any] struct {
	mu    sync.Mutex
	items map[types.NamespacedName]written[W]
	now   func() time.Time
}

type written[W any] struct {
	what    W
	version string
	at      time.Time
}

func newMemory[W any]() *memory[W] {
	return &memory[W]{items: map[types.NamespacedName]written[W]{}, now: time.Now}
}

// wrote remembers that what was written to key, as the resource version that the answer had.
func (m *memory[W]) wrote(key types.NamespacedName, what W, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[key] = written[W]{what, version, m.now()}
}

// pending returns what was written to key and isn't in the cache yet; cached is what is
// there, nil if nothing is. wait says how long to believe it.
func (m *memory[W]) pending(key types.NamespacedName, cached client.Object) (what W, wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, ok := m.items[key]
	if !ok {
		return what, 0, false
	}
	wait = unseen - m.now().Sub(w.at)
	if wait <= 0 || cached != nil && !older(cached.GetResourceVersion(), w.version) {
		delete(m.items, key)
		return what, 0, false
	}
	return w.what, wait, true
}

func (m *memory[W]) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.items, key)
}

// older tells whether resource version a comes before b. They are numbers since Kubernetes
// 1.35; what is none is not older, which costs at most one write more.
func older(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && x < y
}
