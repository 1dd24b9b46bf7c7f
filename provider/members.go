package provider

import (
	"cmp"
	"maps"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
)

// target is one that a TargetGroup has.
type target struct {
	Member
	// disabled by annotation, rather than on its way out.
	disabled bool
	// beyond the Tenant's quota: it isn't added; one that is in stays.
	beyond bool
	// missing says why it has no address.
	missing *problem
	// drainFor is how long open connections may run on; 0: without bound.
	drainFor time.Duration
}

// scene is what members are planned from.
type scene struct {
	targets []target
	// complete: the view of the targets can be acted on. Else nobody is taken out.
	complete bool
	outside  []MemberState
	// before is status.targets as it was.
	before []clusterv1.TargetStatus
	// stopped is when each address was first seen to get no new connection, by this process; plan keeps it.
	stopped map[string]time.Time
	now     time.Time
	settle  time.Duration
	// drainFor of those that are no targets any more.
	drainFor time.Duration
}

// planned is what is to be done and said of members.
type planned struct {
	want    []Member
	targets []clusterv1.TargetStatus
	// strangers are addresses outside that are no targets, and never were.
	strangers []string
	// again: something is under way.
	again bool
}

// plan decides who is to be outside, and what state each is in. A state is of what was seen outside. One that is to leave is
// kept as draining until nothing new has come for the time to settle, and open connections have ended or had their time.
func plan(s scene) planned {
	outside := map[string]MemberState{}
	for _, m := range s.outside {
		outside[m.Address] = m
	}
	serving := map[string]bool{}
	for _, t := range s.targets {
		if t.Address != "" && !t.Draining && (!t.beyond || takes(outside, t.Address)) {
			serving[t.Address] = true
		}
	}
	var p planned
	known := map[string]bool{}
	complete := s.complete
	for _, t := range s.targets {
		status := clusterv1.TargetStatus{Name: t.Name, Address: t.Address}
		switch {
		case t.Address == "":
			complete = false // its address may be one of those outside
			status.State = contract.StateWaiting
			if t.missing != nil {
				status.Reason, status.Message = t.missing.reason, t.missing.message
			}
		case !t.Draining && known[t.Address], t.Draining && serving[t.Address]:
			status.State, status.Reason = contract.StateWaiting, contract.ReasonAddressShared
			status.Message = "Another target has the same address, and serves: remove one."
			if t.Draining {
				status.State = contract.StateRemoving
			}
		case t.beyond && !t.Draining && !takes(outside, t.Address):
			known[t.Address] = true
			status.State, status.Reason = contract.StateWaiting, contract.ReasonQuotaExceeded
			status.Message = "The Tenant may not have so many targets: remove others, or have the hub's operator raise spec.quota.targets."
			if m, there := outside[t.Address]; there { // as it is, until it has drained
				left := p.leave(s, t.Member, m, there, t.drainFor, contract.StateRemoving, contract.StateRemoved)
				status.State = left.State
			}
		case !t.Draining:
			known[t.Address] = true
			delete(s.stopped, t.Address)
			p.want = append(p.want, t.Member)
			status.State = stateOf(outside[t.Address].Health)
			p.again = p.again || status.State != contract.StateActive
		default:
			if known[t.Address] {
				continue // of several that leave at one address, one is told
			}
			known[t.Address] = true
			going, gone := contract.StateRemoving, contract.StateRemoved
			if t.disabled {
				going, gone = contract.StateDisabling, contract.StateDisabled
			}
			m, there := outside[t.Address]
			status = p.leave(s, t.Member, m, there, t.drainFor, going, gone)
		}
		p.targets = append(p.targets, status)
	}
	p.others(s, outside, known, complete)
	slices.SortFunc(p.want, func(a, b Member) int { return cmp.Compare(a.Address, b.Address) })
	return p
}

// others sees to what is outside, or was, and is no target.
func (p *planned) others(s scene, outside map[string]MemberState, known map[string]bool, complete bool) {
	names := map[string]string{}
	for _, t := range s.before {
		if t.Address != "" && !known[t.Address] {
			names[t.Address] = t.Name
		}
	}
	left := maps.Clone(names)
	for a := range outside {
		if !known[a] && names[a] == "" {
			left[a] = a
		}
	}
	for _, a := range slices.Sorted(maps.Keys(left)) {
		m, there := outside[a]
		if !complete {
			if there { // as it is
				p.want = append(p.want, Member{Name: left[a], Address: a, Weight: 1, Draining: m.Health == MemberDraining})
			}
			continue
		}
		status := p.leave(s, Member{Name: left[a], Address: a, Weight: 1}, m, there, s.drainFor, contract.StateRemoving, contract.StateRemoved)
		if names[a] == "" {
			p.strangers = append(p.strangers, a)
		}
		if left[a] == a {
			status.Reason = contract.ReasonNotATarget
			status.Message = "It was added outside, and is no target: it is removed. Add targets in the hub."
		}
		if status.State != contract.StateRemoved {
			p.targets = append(p.targets, status)
		} else {
			delete(s.stopped, a)
		}
	}
}

// leave takes a member out by steps, and says where that stands.
func (p *planned) leave(s scene, m Member, now MemberState, there bool, drainFor time.Duration, going, gone string) clusterv1.TargetStatus {
	status := clusterv1.TargetStatus{Name: m.Name, Address: m.Address, State: going}
	m.Draining = true
	if there && now.Health != MemberDraining {
		delete(s.stopped, m.Address)
		p.want, p.again = append(p.want, m), true
		return status
	}
	if !there && slices.ContainsFunc(s.before, func(b clusterv1.TargetStatus) bool {
		return b.Name == m.Name && b.Address == m.Address && b.State == gone
	}) {
		status.State = gone // as an earlier process saw
		return status
	}
	since, seen := s.stopped[m.Address]
	if !seen {
		since = s.now
		s.stopped[m.Address] = since
	}
	passed := s.now.Sub(since)
	settled := passed >= s.settle
	if !there && settled {
		status.State = gone
		return status
	}
	p.again = true
	status.Reason, status.Message = contract.ReasonSettling, "New connections have stopped: it is waited until that holds everywhere, and open ones have ended."
	ended := now.Connections != nil && *now.Connections == 0 || drainFor > 0 && passed >= drainFor || now.Connections == nil && drainFor == 0
	if there && !(settled && ended) {
		p.want = append(p.want, m)
	}
	return status
}

// takes says whether a member is outside, and not on its way out.
func takes(outside map[string]MemberState, address string) bool {
	m, there := outside[address]
	return there && m.Health != MemberDraining
}

func stateOf(h MemberPhase) string {
	switch h {
	case MemberActive:
		return contract.StateActive
	case MemberUnhealthy:
		return contract.StateUnhealthy
	}
	return contract.StateAdding
}

// differ says whether members outside aren't those that are wanted.
func differ(want []Member, outside []MemberState) bool {
	draining := map[string]bool{}
	for _, m := range outside {
		draining[m.Address] = m.Health == MemberDraining
	}
	return len(want) != len(draining) || slices.ContainsFunc(want, func(m Member) bool {
		d, there := draining[m.Address]
		return !there || d != m.Draining
	})
}
