package proof

import "time"

// Silence is how long a Lease may go without a renewal that we saw until its proxy counts as silent.
const Silence = 30 * time.Second

// Liveness remembers when renewals of Leases were seen, by the watcher's own
// clock. It is not safe for concurrent use.
type Liveness struct {
	leases map[string]*sighting
}

type sighting struct {
	renewal string
	seen    time.Time
	again   bool
}

// NewLiveness has seen nothing.
func NewLiveness() *Liveness { return &Liveness{leases: map[string]*sighting{}} }

// List notes a Lease of the watcher's first list. It counts as live as if it
// had been renewed just now, but nobody saw it renewed.
func (l *Liveness) List(name, renewal string, now time.Time) {
	if l.leases[name] == nil {
		l.leases[name] = &sighting{renewal: renewal, seen: now}
	}
}

// See notes a Lease as it was read at now; renewal is its renewTime, as a word.
// A Lease that is new counts as renewed. It returns whether this was a renewal.
func (l *Liveness) See(name, renewal string, now time.Time) bool {
	s := l.leases[name]
	switch {
	case s == nil:
		l.leases[name] = &sighting{renewal: renewal, seen: now, again: true}
	case s.renewal != renewal:
		s.renewal, s.seen, s.again = renewal, now, true
	default:
		return false
	}
	return true
}

// Postpone counts a Lease as renewed at now, because nobody could have seen it renewed.
func (l *Liveness) Postpone(name string, now time.Time) {
	if s := l.leases[name]; s != nil {
		s.seen = now
	}
}

// Forget drops a Lease that was deleted.
func (l *Liveness) Forget(name string) { delete(l.leases, name) }

// Live says whether a renewal was seen within Silence.
func (l *Liveness) Live(name string, now time.Time) bool {
	s := l.leases[name]
	return s != nil && now.Sub(s.seen) < Silence
}

// Renewed says whether a renewal was seen, beside the first list.
func (l *Liveness) Renewed(name string) bool {
	s := l.leases[name]
	return s != nil && s.again
}

// LastSeen is when the last renewal was seen; the zero time: never.
func (l *Liveness) LastSeen(name string) time.Time {
	if s := l.leases[name]; s != nil {
		return s.seen
	}
	return time.Time{}
}

// NextSilence is the next time at which a Lease that is live at now stops being so; false: none is live.
func (l *Liveness) NextSilence(now time.Time) (next time.Time, ok bool) {
	for name, s := range l.leases {
		if end := s.seen.Add(Silence); l.Live(name, now) && (!ok || end.Before(next)) {
			next, ok = end, true
		}
	}
	return next, ok
}
