package health

import (
	"maps"
	"net/netip"

	"fairlead.dev/fairlead/internal/lb"
)

// snapshot holds verdicts as an immutable lb.Health and what has changed
// since it was last asked for: many changes at once cost one copy.
type snapshot struct {
	health  lb.Health
	pending map[lb.Check]map[netip.Addr]lb.Verdict
}

func newSnapshot() snapshot {
	return snapshot{health: lb.Health{}, pending: map[lb.Check]map[netip.Addr]lb.Verdict{}}
}

func (s *snapshot) set(p lb.Probe, v lb.Verdict) {
	m := s.pending[p.Check]
	if m == nil {
		m = map[netip.Addr]lb.Verdict{}
		s.pending[p.Check] = m
	}
	m[p.Address] = v
}

func (s *snapshot) get() lb.Health {
	if len(s.pending) == 0 {
		return s.health
	}
	health := maps.Clone(s.health)
	for check, changes := range s.pending {
		verdicts := maps.Clone(health[check])
		if verdicts == nil {
			verdicts = lb.Verdicts{}
		}
		for a, v := range changes {
			if v == lb.Unchecked {
				delete(verdicts, a)
			} else {
				verdicts[a] = v
			}
		}
		if len(verdicts) == 0 {
			delete(health, check)
		} else {
			health[check] = verdicts
		}
	}
	s.health = health
	clear(s.pending)
	return health
}
