package resolve

import (
	"context"
	"slices"
	"sync"

	"fairlead.dev/fairlead/internal/lb"
)

// turns bounds the lookups in flight. A place that becomes free goes to who waits of the tenant
// that has the fewest, and no tenant has more than its share: names that time out hold up their own tenant only.
type turns struct {
	max, share int

	mu      sync.Mutex
	all     int
	of      map[lb.TenantID]int
	waiting map[lb.TenantID][]*turn
}

// turn is one lookup that waits; granted is closed when it may begin.
type turn struct{ granted chan struct{} }

func newTurns(n int) *turns {
	return &turns{max: n, share: max(n/4, 1), of: map[lb.TenantID]int{}, waiting: map[lb.TenantID][]*turn{}}
}

// take waits for a turn, which lasts until done is called; false: ctx ended before.
func (t *turns) take(ctx context.Context, tenant lb.TenantID) (done func(), ok bool) {
	me := &turn{granted: make(chan struct{})}
	t.mu.Lock()
	t.waiting[tenant] = append(t.waiting[tenant], me)
	t.grant()
	t.mu.Unlock()
	done = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all--
		if t.of[tenant]--; t.of[tenant] == 0 {
			delete(t.of, tenant)
		}
		t.grant()
	}
	select {
	case <-me.granted:
		return done, true
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting[tenant], me)
	if i >= 0 {
		t.remove(tenant, i)
	}
	t.mu.Unlock()
	if i < 0 { // It was granted just now.
		done()
	}
	return nil, false
}

// grant lets begin whoever may; t.mu is held.
func (t *turns) grant() {
	for t.all < t.max {
		var next lb.TenantID
		some := false
		for tenant := range t.waiting {
			if n := t.of[tenant]; n < t.share && (!some || n < t.of[next]) {
				next, some = tenant, true
			}
		}
		if !some {
			return
		}
		me := t.waiting[next][0]
		t.remove(next, 0)
		t.all++
		t.of[next]++
		close(me.granted)
	}
}

func (t *turns) remove(tenant lb.TenantID, i int) {
	if t.waiting[tenant] = slices.Delete(t.waiting[tenant], i, i+1); len(t.waiting[tenant]) == 0 {
		delete(t.waiting, tenant)
	}
}
