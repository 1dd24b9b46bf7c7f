package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
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
}

type written[W any] struct {
	what    W
	version string
	at      time.Time
}

func newMemory[W any]() *memory[W] {
	return &memory[W]{items: map[types.NamespacedName]written[W]{}}
}

// wrote remembers that what was written to key, as the resource version that the answer had.
func (m *memory[W]) wrote(key types.NamespacedName, what W, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items[key] = written[W]{what, version, time.Now()}
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
	wait = unseen - time.Since(w.at)
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

// older tells whether resource version a comes before b. What is no version is not older,
// which costs at most one write more.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}
