package member

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

// Sight is what the proxies have said of a member as its TargetGroup places it now, or somebody else who speaks for all that
// send to it.
type Sight struct {
	// By is who that is, as a message names it; empty: proxies. Who speaks alone counts as one that is Live where it has a word.
	By string
	// Live proxies that serve, and have not the hub changed under them; of these Healthy send to it and find it well, and
	// Unhealthy find it not so. The others have no word on it yet.
	Live, Healthy, Unhealthy int
	// Why the first of the Unhealthy finds it so.
	Why string
	// Gone: each proxy that may send to it, live or not, has said that it has stopped. Only where it drains.
	Gone bool
	// Against are those that have not.
	Against []proof.Waiting
	// Waits is what is waited for, where By speaks and the member isn't Gone.
	Waits string
}

// against says who or what is waited for.
func (s *Sight) against() string {
	if s.By != "" {
		return fmt.Sprintf("waiting for %s: %s", s.By, s.Waits)
	}
	return "waiting for proxies: " + proof.Names(s.Against)
}

// Asked is a member as its TargetGroup has it.
type Asked struct {
	// Removal names it, and the version at which the TargetGroup got its present content.
	proof.Removal
	// Draining as the TargetGroup says.
	Draining bool
	// Counts says whether a check, as ProxyReports name it, is one of the LoadBalancer's; nil: each is.
	Counts func(check string) bool
}

// Look asks the proxies, sorted by name, that may send to a member: those of the pools of the LoadBalancers that have it,
// and those that say so. Of those that serve, only a whole word counts: one that has applied the TargetGroup, and whose
// report is here. One sick proxy is outvoted by any that finds the member well.
func Look(m Asked, proxies []*proof.Proxy) Sight {
	var s Sight
	if m.Draining {
		s.Against = proof.JudgeRemoved(m.Removal, proxies)
		s.Gone = len(s.Against) == 0
		return s
	}
	for _, p := range proxies {
		if !p.Live || p.Out || !p.Reported || p.Frozen() {
			continue
		}
		s.Live++
		unhealthy, unchecked, why := m.word(p)
		switch {
		case unhealthy:
			s.Unhealthy++
			if s.Why == "" {
				s.Why = strings.TrimSuffix(p.Name+": "+why, ".")
			}
		case m.Address == "", unchecked, p.Through.TargetGroups < m.Version, !p.Settled, slices.Contains(p.Held, m.Namespace), m.truncated(p):
		default:
			s.Healthy++
		}
	}
	return s
}

func (m *Asked) truncated(p *proof.Proxy) bool {
	r := p.Reports[m.Namespace]
	return r != nil && r.Truncated
}

// word is what a proxy reports of the member's checks.
func (m *Asked) word(p *proof.Proxy) (unhealthy, unchecked bool, why string) {
	r := p.Reports[m.Namespace]
	if r == nil {
		return false, false, ""
	}
	for _, e := range r.Members {
		if e.GroupUID != m.GroupUID || e.TargetUID != m.TargetUID || m.Counts != nil && !m.Counts(e.Check) {
			continue
		}
		switch e.State {
		case v1alpha1.ReportedUnhealthy:
			if !unhealthy {
				unhealthy, why = true, strings.TrimSpace(e.Check+" "+e.Message)
			}
		case v1alpha1.ReportedUnchecked:
			unchecked = true
		}
	}
	return unhealthy, unchecked, why
}
