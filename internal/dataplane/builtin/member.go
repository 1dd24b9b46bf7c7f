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
	// resets counts connections in a row that it reset before it said anything.
	resets atomic.Int32

	mu sync.Mutex
	// drains: it takes no new connection; since when, and how long open ones may live.
	drains   bool
	since    time.Time
	drainFor time.Duration
	held     ties
	timer    *time.Timer
}

// admit counts one for m; false if m drains.
func (m *member) admit(t *tie) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains {
		return false
	}
	m.held.add(t)
	m.open.Add(1)
	return true
}

// take counts one that m has already, drain or not.
func (m *member) take(t *tie) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.add(t)
	m.open.Add(1)
	if m.drains {
		m.leaving.addMember(m)
		m.arm()
	}
}

// dismiss lets go of one.
func (m *member) dismiss(t *tie) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held.remove(t)
	m.open.Add(-1)
	if !m.drains {
		return
	}
	if m.held.n == 0 {
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
		if m.held.n > 0 {
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
	for t := m.held.first; t != nil; t = t.next {
		if due := m.due(t.of); !due.IsZero() && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	if !first.IsZero() {
		m.timer = time.AfterFunc(time.Until(first), m.cutDue)
	}
}

// due is when c is to be cut; zero: never, or it has been. m.mu is held.
func (m *member) due(c carried) time.Time {
	limit := m.drainFor
	if limit == lb.DrainUnset {
		limit = c.through().config.Load().pool.config.Load().DrainTimeout
	}
	if limit <= 0 || c.over() {
		return time.Time{}
	}
	return m.since.Add(limit)
}

func (m *member) cutDue() {
	m.mu.Lock()
	var cut []carried
	if now := time.Now(); m.drains {
		for t := m.held.first; t != nil; t = t.next {
			if due := m.due(t.of); !due.IsZero() && !due.After(now) {
				cut = append(cut, t.of)
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
