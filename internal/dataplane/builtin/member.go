package builtin

import (
	"sync"
	"sync/atomic"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

type targetKey struct {
	tenant lb.TenantID
	member lb.MemberKey
}

// target is what the members of all groups of a tenant share that have one key.
type target struct {
	targetKey
	metrics *targetMetrics
	// serving counts the groups in which it takes new connections.
	serving atomic.Int64
	// refs counts the members; under Dataplane.mu.
	refs int
}

// member is one lb.Member of one group, with its connections of all pools.
type member struct {
	target  *target
	leaving *leaving
	open    atomic.Int64
	// removed: it is no longer in the group.
	removed atomic.Bool

	mu sync.Mutex
	// drains: it takes no new connection; since when, and how long open ones may live.
	drains   bool
	since    time.Time
	drainFor time.Duration
	conns    map[*conn]struct{}
	timer    *time.Timer
}

// admit counts c for m; false if m drains.
func (m *member) admit(c *conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains {
		return false
	}
	m.conns[c] = struct{}{}
	m.open.Add(1)
	return true
}

// dismiss lets go of c.
func (m *member) dismiss(c *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, c)
	m.open.Add(-1)
	if !m.drains {
		return
	}
	if len(m.conns) == 0 {
		m.stopTimer()
		m.leaving.dropMember(m)
	}
	m.leaving.notify()
}

// drain stops new connections, if they haven't been stopped, and bounds the
// open ones by drainFor, counted from when they were.
func (m *member) drain(drainFor time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.drains {
		m.drains, m.since = true, time.Now()
		m.target.serving.Add(-1)
		if len(m.conns) > 0 {
			m.leaving.addMember(m)
		}
	}
	m.drainFor = drainFor
	m.arm()
}

// serve takes new connections, again or still.
func (m *member) serve() {
	m.removed.Store(false)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.drains {
		return
	}
	m.drains = false
	m.target.serving.Add(1)
	m.stopTimer()
	m.leaving.dropMember(m)
}

// rearm takes another DrainTimeout of a pool into account.
func (m *member) rearm() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains {
		m.arm()
	}
}

// arm sets the timer to when the next connection is to be cut. m.mu is held.
func (m *member) arm() {
	m.stopTimer()
	var first time.Time
	for c := range m.conns {
		if due := m.due(c); !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if !first.IsZero() {
		m.timer = time.AfterFunc(time.Until(first), m.cutDue)
	}
}

// due is when c is to be cut; zero: never, or it has been. m.mu is held.
func (m *member) due(c *conn) time.Time {
	limit := m.drainFor
	if limit == lb.DrainUnset {
		limit = c.front.config.Load().pool.config.Load().DrainTimeout
	}
	if limit <= 0 || c.dead.Load() {
		return time.Time{}
	}
	return m.since.Add(limit)
}

func (m *member) cutDue() {
	m.mu.Lock()
	var cut []*conn
	if now := time.Now(); m.drains {
		for c := range m.conns {
			if due := m.due(c); !due.IsZero() && !due.After(now) {
				cut = append(cut, c)
			}
		}
	}
	m.mu.Unlock()
	for _, c := range cut {
		c.cut()
	}
	m.rearm()
}

func (m *member) stopTimer() {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
}
