package proof

import (
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// Release is an address that somebody else may have once every proxy has let go of it.
type Release struct {
	Name, UID string
	// Version at which it became Releasing.
	Version Version
	// Namespaces of its holders that can hold a report: it is listed there. Without any, what a proxy
	// has applied is its whole word.
	Namespaces []string
	// IgnoreSilent takes a silent proxy for gone: onSilentProxy Release.
	IgnoreSilent bool
}

// JudgeReleased says which proxies of the pool, sorted by name, still stand against it; none: it is released.
// Every proxy counts from the creation of its Proxy until it is fenced or Left, live or not.
func JudgeReleased(a Release, proxies []*Proxy) []Waiting {
	var out []Waiting
	for _, p := range proxies {
		if p.Out || a.IgnoreSilent && !p.Live {
			continue
		}
		if why := p.holds(a); why != "" {
			out = append(out, Waiting{p.Name, why, !p.Live})
		}
	}
	return out
}

func (p *Proxy) holds(a Release) string {
	switch {
	case !p.Reported:
		return p.mute()
	case p.Frozen():
		return "serves on what it had, for the hub has changed"
	case p.Unheard():
		return "has yet to be heard of by this manager"
	case p.Through.Addresses < a.Version:
		return "has not applied the release yet"
	}
	for _, namespace := range a.Namespaces {
		if why := p.unproven(namespace); why != "" {
			return why
		}
		// An entry is a positive word: it counts in a truncated report as well.
		state := v1alpha1.ReportedState("")
		var open int64
		if r := p.Reports[namespace]; r != nil {
			if i := slices.IndexFunc(r.Addresses, func(e v1alpha1.ReportedAddress) bool { return e.Name == a.Name && e.UID == a.UID }); i >= 0 {
				state, open = r.Addresses[i].State, r.Addresses[i].OpenConnections
			}
		}
		switch {
		case state == v1alpha1.ReportedGone:
		case open > 0:
			return "has open connections"
		default:
			return "has not reported it gone yet"
		}
	}
	return ""
}

// Removal is a member that must get no traffic any more.
type Removal struct {
	Namespace                    string
	GroupUID, TargetUID, Address string
	// Version of the TargetGroup that drains it, or has it no more.
	Version Version
}

// JudgeRemoved says which proxies still stand against a member's removal; none: it is removed.
func JudgeRemoved(m Removal, proxies []*Proxy) []Waiting {
	var out []Waiting
	for _, p := range proxies {
		if p.Out {
			continue
		}
		if why := p.keeps(m); why != "" {
			out = append(out, Waiting{p.Name, why, !p.Live})
		}
	}
	return out
}

func (p *Proxy) keeps(m Removal) string {
	if !p.Reported {
		return p.mute()
	}
	if p.Unheard() {
		return "has yet to be heard of by this manager"
	}
	if p.Through.TargetGroups < m.Version {
		return "has not applied it yet"
	}
	if why := p.unproven(m.Namespace); why != "" {
		return why
	}
	gone := false
	if r := p.Reports[m.Namespace]; r != nil {
		for _, e := range r.Members {
			if e.GroupUID != m.GroupUID || e.TargetUID != m.TargetUID || e.Address != m.Address {
				continue
			}
			switch e.State {
			case v1alpha1.ReportedGone:
				gone = true
			case v1alpha1.ReportedDraining:
				return "has open connections"
			}
		}
	}
	if !gone {
		return "has not reported it gone yet"
	}
	return ""
}

// mute says why one that hasn't Reported is waited for, and what to do about one that nobody ever ran: it may be somebody's who
// serves from his file and can't say so, and only a person knows.
func (p *Proxy) mute() string {
	if p.Boot == "" {
		return "has never run in this hub (start it, set spec.fenced on it, or delete its Proxy)"
	}
	return "has not reported yet"
}
