package simulation

import (
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	"k8s.io/apimachinery/pkg/types"
)

// stage is what a reporter does next.
type stage int

const (
	resting stage = iota
	filing
	reporting
	stating
)

// stated is what the reporter speaks of.
type stated struct {
	wanted  proxy.Wanted
	outcome dataplane.Outcome
	seen    dataplane.Observation
	served  map[types.NamespacedName]generation
	good    *proxy.LastGood
}

// report is the reporter's next thing to do.
func (h *host) report() bool {
	if h.files() {
		return true
	}
	if !h.up || h.fenced || h.link.cut || h.own != nil && h.own.Spec.Fenced != nil {
		return false
	}
	h.remember()
	if q, doubted := h.view.Inbox.Question(); doubted {
		h.confirm(q)
		return true
	}
	if era, _ := h.view.Inbox.Era(); era != h.era {
		h.w.trace("%s: the hub has changed: %v", h.name, h.view.Inbox.Frozen())
		h.era, h.registered, h.object, h.now = era, false, nil, resting
		h.known, h.version, h.reread = nil, 0, true
		clear(h.absent)
		clear(h.untaken)
		clear(h.held)
	}
	if !h.registered {
		h.register()
		return true
	}
	if time.Now().Before(h.claimAt) {
		return false
	}
	switch h.now {
	case resting:
		if h.posted == nil && !h.reread && !h.owes() {
			return false
		}
		if h.posted != nil {
			h.told, h.posted = h.posted, nil
		}
		if h.told == nil {
			return false
		}
		h.now = filing
		if h.w.has(StatusFirst) {
			h.now = stating
		}
	case filing:
		h.keepFile()
		h.now = reporting
	case reporting:
		if h.writeReports() {
			h.now = stating
			if h.w.has(StatusFirst) {
				h.now = resting
			}
		}
	case stating:
		if h.writeStatus() {
			h.now = resting
			if h.w.has(StatusFirst) {
				h.now = filing
			}
		}
	}
	return true
}

// additionsWithin is how long changes may wait for the file, but for removals, which wait for nothing.
const additionsWithin = time.Second

// files keeps the file when it is due, whether or not the hub can be told of it. False: it isn't.
func (h *host) files() bool {
	if !h.up || h.fenced || h.posted == nil || !h.removal && time.Since(h.postedAt) < additionsWithin || h.w.has(StatusFirst) {
		return false
	}
	h.keepFile()
	h.now = reporting
	return true
}

// keepFile writes the file; what was removed is on disk when it returns, anything else by chance.
func (h *host) keepFile() {
	if h.posted != nil {
		h.told, h.posted = h.posted, nil
	}
	good := *h.told.good
	good.Memory = h.view.Inbox.Memory()
	h.disk = file{good: &good, served: h.told.served, frontends: map[lb.FrontendID]bool{}, unhealthy: h.unhealthy()}
	for _, l := range h.told.wanted.Program.Listeners {
		for _, f := range l.Frontends {
			h.disk.frontends[f] = true
		}
	}
	if h.firstFile || h.removal && !h.w.has(FileNotSynced) || !h.removal && h.w.n(2) == 0 {
		h.synced = h.disk
	}
	h.removal, h.firstFile = false, false
}

// remember has the file say by what the hub is known.
func (h *host) remember() {
	m := h.view.Inbox.Memory()
	if h.disk.good == nil || h.disk.good.Memory == m {
		return
	}
	good := *h.disk.good
	turned := good.Memory.Frozen != m.Frozen
	good.Memory = m
	h.disk.good = &good
	if turned {
		h.synced = h.disk
	}
}
