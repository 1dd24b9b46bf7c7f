package member

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// State of a member, as status.targets[].state and the annotation loadbalancer.cluster.x-k8s.io/status say it; the package's
// comment has their meaning. Empty: it was never seen.
type State string

const (
	Waiting   State = "waiting"
	Adding    State = "adding"
	Active    State = "active"
	Unhealthy State = "unhealthy"
	Disabling State = "disabling"
	Disabled  State = "disabled"
	Updating  State = "updating"
	Removing  State = "removing"
	Removed   State = "removed"
)

// States are all of them.
func States() []State {
	return []State{Waiting, Adding, Active, Unhealthy, Disabling, Disabled, Updating, Removing, Removed}
}

// Reasons beside a state, where it isn't plain.
const (
	// ReasonNoAddress: the Machine or Node has no address that may be used; see spec.addressTypes.
	ReasonNoAddress = "NoAddress"
	// ReasonHookFirst: it is added once its Machine carries the hook.
	ReasonHookFirst = "HookFirst"
	// ReasonNotChecked: no proxy has a result of its check yet.
	ReasonNotChecked = "NotChecked"
	// ReasonFailsCheck: it fails its check; see to what listens there, or mend the check.
	ReasonFailsCheck = "FailsCheck"
	// ReasonPartlySeen: some proxies don't find it healthy; see to those that the message counts.
	ReasonPartlySeen = "PartlySeen"
	// ReasonNoProxies: no live proxy has a word on it.
	ReasonNoProxies = "NoProxies"
	// ReasonLastActive: it would be the last active member to go; another one is waited for, or needed.
	ReasonLastActive = "LastActive"
	// ReasonDraining: proxies may still send to it, or have connections open; the message names them.
	ReasonDraining = "Draining"
	// ReasonUpdating: its Machine is updated in place, and no proxy sends to it.
	ReasonUpdating = "Updating"
	// ReasonScalingDown: its Node is about to be scaled down.
	ReasonScalingDown = "ScalingDown"
	// ReasonMaxWaitPassed: maxWait has passed before all proxies had stopped.
	ReasonMaxWaitPassed = "MaxWaitPassed"
	// ReasonFrozen: nothing moves now; the message says why.
	ReasonFrozen = "Frozen"
)

// Cause that is inferred for taking a member out: nobody asked for it.
type Cause string

const (
	// NoCause: there is none.
	NoCause Cause = ""
	// InPlaceUpdate: the Machine's condition Updating is true.
	InPlaceUpdate Cause = "InPlaceUpdate"
	// ScaleDown: the Node carries the autoscaler's taint.
	ScaleDown Cause = "ScaleDown"
)

// Absent: no TargetGroup names the target. The other two are the API's.
const Absent v1alpha1.TargetState = ""

// LoadBalancer is what all its members share.
type LoadBalancer struct {
	// Frozen is why nothing may move: its Cluster is paused, its objects move to another hub, or proxies serve on what they
	// had before the hub changed. Empty: it may.
	Frozen string
	// Leaving: it is being deleted.
	Leaving bool
	// ClusterLeaving: its Cluster, or that one's control plane object, is being deleted.
	ClusterLeaving bool
	// Hooked: Machines are held by a hook until they are removed. Never for Nodes.
	Hooked bool
	// MaxWait bounds how long a hook holds a Machine that is to leave, once nothing sends to it anew.
	MaxWait time.Duration
	// Release lifts the hook when MaxWait has passed. Else it stays until the proxies have stopped (onMaxWait Block).
	Release bool
}

// Member is one target of one LoadBalancer, as it is seen.
type Member struct {
	Name string

	// Of the Machine or Node.

	// Selected by the LoadBalancer.
	Selected bool
	// Deleting: it has a deletion timestamp.
	Deleting bool
	// Dead: Cluster API's health check has given it up. It may serve all the same, as where its kubelet alone has died, so that
	// alone lets go of nothing; see lost.
	Dead bool
	// Disabled by a person's annotation.
	Disabled bool
	// Cause inferred to take it out.
	Cause Cause
	// Addressed: it has an address that may be used.
	Addressed bool
	// Hook: it carries the LoadBalancer's hook.
	Hook bool

	// Of the data plane.

	// Placed is what the TargetGroup says of it.
	Placed v1alpha1.TargetState
	// Sight of the proxies, as it is placed now.
	Sight Sight
	// Was its state before.
	Was State
	// Waited since it is to leave, on the caller's own clock; see Wait.
	Waited time.Duration
}

// Decision is what is wanted of a member, and what it is meanwhile.
type Decision struct {
	// State; empty: it isn't known yet, and nothing moves.
	State           State
	Reason, Message string
	// Want is what the TargetGroup is to say of it.
	Want v1alpha1.TargetState
	// Asked is what is wanted of a load balancer that somebody else manages, by the Machine's annotation; Absent: nothing.
	Asked v1alpha1.TargetState
	// Hook: its Machine is to carry the hook. A hook is written before Want, and taken off after what proved that it may.
	Hook bool
}

// Wait is how much of the time that has passed since a member is to leave counts as waited: none while it stands still, as in
// a paused Cluster, and at most half of maxWait while it serves. The other half is the proxies'.
func Wait(l LoadBalancer, passed time.Duration, still, serves bool) time.Duration {
	switch {
	case still || l.Frozen != "":
		return 0
	case serves:
		return min(passed, l.MaxWait/2)
	}
	return passed
}

// Decide judges all members of a LoadBalancer, and answers in their order. The same members give the same decisions.
func Decide(l LoadBalancer, members []Member) []Decision {
	s := standing(l, members)
	out := make([]Decision, len(members))
	for i := range members {
		out[i] = decide(l, &members[i], s)
	}
	return out
}

// stand counts the members that nobody wants out.
type stand struct {
	// active takes connections now; coming may do so in a while.
	active, coming int
}

func standing(l LoadBalancer, members []Member) stand {
	var s stand
	for i := range members {
		m := &members[i]
		switch {
		case m.leaves(l) || m.Disabled || m.Cause != NoCause:
		case m.serves():
			s.active++
		default:
			s.coming++
		}
	}
	return s
}

// leaves says that somebody wants it out for good.
func (m *Member) leaves(l LoadBalancer) bool { return m.Deleting || !m.Selected || l.Leaving }

// serves says that a live proxy sends to it and finds it healthy.
func (m *Member) serves() bool { return m.Placed == v1alpha1.TargetServing && m.Sight.Healthy > 0 }

// gone says that every proxy that may have sent to it has said that it stopped; or nothing was ever sent there.
func (m *Member) gone(l LoadBalancer) bool {
	return m.Placed == v1alpha1.TargetDraining && m.Sight.Gone || m.Placed == Absent && !m.everPlaced() && !m.maybePlaced(l)
}

// maybePlaced says that a TargetGroup may name it that isn't seen yet: where no hook comes first, nothing on the Machine tells.
func (m *Member) maybePlaced(l LoadBalancer) bool {
	return !l.Hooked && m.Addressed && (m.Was == "" || m.Was == Waiting)
}

// everPlaced says that a TargetGroup may have named it since all proxies last stopped.
func (m *Member) everPlaced() bool {
	switch m.Was {
	case "", Waiting, Removed, Disabled:
		return m.Placed != Absent || m.Hook
	}
	return true
}

func decide(l LoadBalancer, m *Member, s stand) Decision {
	if l.Frozen != "" {
		return Decision{State: m.Was, Reason: ReasonFrozen, Message: l.Frozen, Want: m.Placed, Hook: m.Hook}
	}
	var d Decision
	switch {
	case m.leaves(l):
		d = m.leave(l, s)
	case m.Disabled:
		d = m.drain(l, Disabling, Disabled)
	case m.Placed == Absent && !m.Addressed && !m.everPlaced():
		d = Decision{State: Waiting, Reason: ReasonNoAddress, Message: "it has no address that may be used yet"}
	case m.Cause != NoCause:
		d = m.inferred(l, s)
	default:
		d = m.serve()
	}
	d.Hook = m.hook(l, &d)
	if d.Want == v1alpha1.TargetServing && m.Placed != d.Want && l.Hooked && !m.Hook {
		// Whoever finds neither hook nor target takes it for never sent to.
		d.Want, d.Reason, d.Message = m.Placed, ReasonHookFirst, "it is added once its Machine carries the hook"
	}
	return d
}

// leave is for a member that is to go for good.
func (m *Member) leave(l LoadBalancer, s stand) Decision {
	if m.unclear(l) {
		return Decision{
			State: Removing, Want: m.Placed, Reason: ReasonNotChecked,
			Message: fmt.Sprintf("Cluster API's health check has given its Machine up, and nobody has a word on it yet: one is waited for, at most for %s", l.wordWait()),
		}
	}
	if m.Deleting && !l.Leaving && !l.ClusterLeaving && m.serves() && s.active == 0 && s.coming > 0 && m.Waited < l.MaxWait/2 {
		return Decision{
			State: Removing, Want: m.Placed, Reason: ReasonLastActive,
			Message: fmt.Sprintf("it is the last active member: it serves on until another one is, at most for %s", l.MaxWait/2),
		}
	}
	d := m.drain(l, Removing, Removed)
	if d.State == Removed && !m.Selected && !m.Hook && m.Was == Removed {
		d.Want = Absent // else, after a write that was lost, an entry that is missing would be listed again
	}
	return d
}

// inferred is for a member that nobody asked to take out: it goes if another one stays.
func (m *Member) inferred(l LoadBalancer, s stand) Decision {
	if s.active == 0 {
		d := m.serve()
		if d.State == Active {
			d.Reason, d.Message = ReasonLastActive, "it is left in, for no other member is active: "+m.Cause.text()
		}
		return d
	}
	during, after := Updating, Updating
	if m.Cause == ScaleDown {
		during, after = Removing, Removed
	}
	d := m.drain(l, during, after)
	if d.State == after && m.gone(l) {
		d.Reason, d.Message = m.Cause.reason(), m.Cause.text()
	}
	return d
}

func (c Cause) reason() string {
	if c == ScaleDown {
		return ReasonScalingDown
	}
	return ReasonUpdating
}

func (c Cause) text() string {
	if c == ScaleDown {
		return "its Node is about to be scaled down"
	}
	return "its Machine is updated in place"
}

// drain takes a member out: during until all proxies have stopped, then after.
func (m *Member) drain(l LoadBalancer, during, after State) Decision {
	switch {
	case m.gone(l):
		return Decision{State: after, Want: m.Placed}
	case m.Placed == Absent:
		// Somebody dropped it. The proxies say that they have stopped of what is listed alone.
		return Decision{State: during, Want: v1alpha1.TargetDraining, Reason: ReasonDraining, Message: "it is listed again, so that proxies say whether they have stopped"}
	}
	d := Decision{State: during, Want: v1alpha1.TargetDraining, Reason: ReasonDraining, Message: "it takes no new connection from now on"}
	if m.Placed == v1alpha1.TargetDraining {
		d.Message = m.Sight.against()
	}
	return d
}

// serve is for a member that nobody wants out.
func (m *Member) serve() Decision {
	d := Decision{State: Adding, Want: v1alpha1.TargetServing}
	known := m.Was == Active || m.Was == Unhealthy
	if m.Placed != v1alpha1.TargetServing {
		d.Reason, d.Message = ReasonNotChecked, "nobody sends to it yet"
		return d
	}
	v := &m.Sight
	switch {
	case v.Healthy > 0:
		d.State = Active
		if v.Healthy < v.Live {
			d.Reason = ReasonPartlySeen
			d.Message = fmt.Sprintf("%d of %d live proxies find it healthy, %d unhealthy", v.Healthy, v.Live, v.Unhealthy)
		}
	case v.By != "" && v.Live == 0:
		d.Reason, d.Message = ReasonNotChecked, fmt.Sprintf("%s has no word on it yet", v.By)
		if known {
			d.State = m.Was
		}
	case v.By != "" && v.Unhealthy > 0:
		d.Reason, d.Message = ReasonFailsCheck, fmt.Sprintf("found unhealthy by %s: %s", v.By, v.Why)
		if known {
			d.State = Unhealthy
		}
	case v.Live == 0:
		d.Reason, d.Message = ReasonNoProxies, "no live proxy has a word on it"
		if known {
			d.State = m.Was
		}
	case v.Unhealthy > 0:
		d.Reason, d.Message = ReasonFailsCheck, fmt.Sprintf("found unhealthy by %d of %d live proxies: %s", v.Unhealthy, v.Live, v.Why)
		if known {
			d.State = Unhealthy
		}
	default:
		d.Reason, d.Message = ReasonNotChecked, "its check has no result yet"
		if !m.Addressed {
			d.Reason, d.Message = ReasonNoAddress, "it has no address that may be used any more"
		}
		if known {
			d.State = m.Was
		}
	}
	return d
}

// hook says whether the Machine is to carry the hook while d is done.
func (m *Member) hook(l LoadBalancer, d *Decision) bool {
	switch {
	case !l.Hooked, l.Leaving, l.ClusterLeaving:
		return false
	case !m.Deleting && m.Selected:
		return m.Hook || m.Placed != Absent || d.Want != Absent
	case !m.Hook, d.State == Removed, m.lost(l):
		return false
	case m.Placed != v1alpha1.TargetServing && m.Waited >= l.MaxWait && (l.Release || !m.Selected):
		if d.State == Removing {
			d.Reason, d.Message = ReasonMaxWaitPassed, fmt.Sprintf("its Machine isn't held any longer, for maxWait (%s) has passed; %s", l.MaxWait, d.Message)
		}
		return false
	}
	return true
}
