package simulation

import (
	"maps"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	"k8s.io/apimachinery/pkg/types"
)

// turn is one of the loop: take in, build, apply, post.
func (h *host) turn() bool {
	switch {
	case !h.up || h.fenced:
		return false
	case h.own != nil && h.own.Spec.Fenced != nil:
		return h.obey()
	case h.unapplied != nil:
		h.apply(h.unapplied.Program)
		h.unapplied, h.dirty = nil, true
		return true
	}
	if era, _ := h.view.Inbox.Era(); era != h.linked {
		h.linked, h.own = era, nil
		h.link.anew()
		if h.w.has(ThawedAtOnce) {
			at, disk := h.plane, h.disk
			h.start()
			h.plane, h.disk = at, disk
			return true
		}
	}
	before := h.wanted
	next := h.view.Take()
	next.Program = h.checked(next.Program)
	h.wanted = next
	if before.Frozen != nil && next.Frozen == nil {
		h.w.result.Thawed++
	}
	h.note(next.Changes)
	if !h.fromHub && (next.Complete && h.registered || h.w.has(IncompleteView)) {
		h.fromHub = true
	}
	if !h.fromHub {
		good := h.disk.good
		if h.fromFile || good == nil || good.Memory.Frozen == "" && time.Since(h.started) < patience {
			return false
		}
		h.fromFile = true
		h.plane.served = h.disk.served
		h.apply(next.Program)
		return true
	}
	turned := !h.begun || before.Era != next.Era || before.Epoch != next.Epoch || (before.Frozen == nil) != (next.Frozen == nil)
	if !turned && before.Versions == next.Versions && len(next.Changes) == 0 && before.Frozen == next.Frozen && !h.dirty {
		h.align(next)
		return false
	}
	h.begun = true
	s := &stated{wanted: next, served: maps.Clone(h.generations), good: h.view.LastGood()}
	s.good.Through = next.Versions
	h.changed = h.changed || len(next.Changes) > 0
	h.removal = h.removal || turned || proxy.Removes(lb.Diff(h.plane.program, next.Program))
	if h.w.has(SpeaksBeforeApply) && !turned {
		s.seen = h.observe()
		h.post(s)
		h.dirty, h.unapplied = false, &next
		return true
	}
	h.apply(next.Program)
	h.align(next)
	h.untell(before, next)
	h.obeys(before, next)
	h.plane.served = s.served
	s.outcome = dataplane.Outcome{Refused: slices.Clone(h.plane.refused)}
	s.seen = h.observe()
	h.dirty = false
	h.post(s)
	return true
}

// post hands to the reporter what was applied.
func (h *host) post(s *stated) {
	if h.posted == nil {
		h.postedAt = time.Now()
	}
	h.posted = s
}

// apply makes the plane follow.
func (h *host) apply(next *lb.Program) {
	if h.fromHub {
		h.w.judgeDrops(h, h.plane.program, next)
	}
	h.runs = next
	h.plane.verdicts = next.Health
	if h.w.has(ChecksIgnored) {
		unchecked := *next
		unchecked.Health, next = nil, &unchecked
	}
	h.plane.apply(next, h.refuse)
}

// obey lets go of everything: somebody fenced the proxy.
func (h *host) obey() bool {
	if h.plane.idle() && h.disk.good == nil {
		return false
	}
	h.w.trace("%s is fenced, and lets go", h.name)
	h.plane, h.disk, h.synced = emptyPlane(), file{}, file{}
	clear(h.keeps)
	return true
}

// note keeps the generations of the LoadBalancers that the view shows.
func (h *host) note(changes []proxy.Change) {
	for _, c := range changes {
		if c.Resource != proxy.LoadBalancers {
			continue
		}
		key := types.NamespacedName{Namespace: c.Key.Namespace, Name: c.Key.Name}
		if c.Object == nil {
			delete(h.generations, key)
		} else {
			h.generations[key] = generation{c.Object.GetUID(), c.Object.GetGeneration()}
		}
	}
}

// untell notes connections that the word of the hub before this one has ended: nobody says in this one that they are open.
func (h *host) untell(before, next proxy.Wanted) {
	earlier := before.Era != next.Era && !next.Complete
	if h.w.change == nil || h.asked == h.w.incarnation && !earlier {
		return
	}
	for _, c := range h.plane.closing() {
		h.plane.untold[c] = true
	}
}

// untellUnfiled notes the connections of what the file doesn't name: the process that had it served ended before it filed that, and of
// what the hub lacks the next one can say nothing.
func (h *host) untellUnfiled() {
	for c := range h.plane.conns {
		if !h.disk.frontends[c.frontend] {
			h.plane.untold[c] = true
		}
	}
}

// align notes that the host serves what the present hub says.
func (h *host) align(next proxy.Wanted) {
	in := h.view.Inbox
	if next.Complete && in.Sure() && in.Frozen() == nil && h.link.knows(h.w.incarnation) {
		h.aligned = h.w.incarnation
	}
}

func (h *host) observe() dataplane.Observation {
	if h.w.has(OpenConnectionsForgotten) {
		return dataplane.Observation{}
	}
	return h.plane.observe()
}

// traffic opens or ends a connection.
func (h *host) traffic() {
	if !h.on {
		return
	}
	if h.plane.traffic(h.w.n) {
		h.dirty = true
	}
	if c := h.plane.opened; c != nil {
		h.w.judgeOpened(h, *c)
	}
}
