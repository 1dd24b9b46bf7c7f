package simulation

import (
	"time"
)

// chaosKinds are the cases of chaos.
const chaosKinds = 19

// chaos is what goes wrong by itself.
func (w *World) chaos() {
	h := w.hosts[w.n(hosts)]
	if w.Changes && w.n(5) == 0 {
		w.alter()
		return
	}
	if w.rivalries() && w.n(4) == 0 {
		w.rival()
		return
	}
	kind := w.n(chaosKinds)
	if w.temper.spared[kind] {
		return
	}
	switch kind {
	case 0:
		if h.up && !h.link.cut {
			h.link.cut = true
			w.trace("%s is cut off", h.name)
		}
	case 1, 2:
		if h.up && h.link.cut {
			h.link.cut = false
			h.link.broken()
			w.trace("%s is back", h.name)
		}
	case 3:
		if h.up && w.n(2) == 0 {
			h.die(false)
			w.trace("%s: its process dies", h.name)
		}
	case 4:
		if h.on && w.n(3) == 0 {
			h.die(true)
			w.trace("%s: its machine dies", h.name)
		}
	case 5, 6:
		if !h.up && !h.fenced && (h.made || w.n(3) == 0) {
			h.start()
			h.lag()
			h.link.cut = w.n(3) == 0
			w.trace("%s starts as %s, cut off: %v", h.name, h.boot, h.link.cut)
		}
	case 7:
		if w.n(3) == 0 {
			w.restart(w.mgrs[w.n(2)], w.n(2) == 0)
		}
	case 8:
		if m := w.mgrs[w.n(2)]; !m.stands() && w.n(2) == 0 {
			w.stand(m)
		}
	case 9:
		for k := range w.server.floor {
			w.server.floor[k] = w.server.version
		}
		w.trace("old versions are compacted")
	case 10:
		l := w.links()[w.n(len(w.links()))]
		k := l.kinds[w.n(len(l.kinds))]
		if w.n(2) == 0 {
			l.end(k)
		} else {
			l.late[k] = time.Now().Add(time.Duration(w.n(60)) * time.Second)
		}
	case 11:
		if !h.on && h.made && !h.fenced && w.n(6) == 0 {
			w.fence(h)
		}
	case 12:
		for p := range h.refuse {
			if w.n(4) == 0 {
				delete(h.refuse, p)
				h.dirty = true
				w.trace("%s: port %d is free", h.name, p)
			}
		}
	case 13:
		w.agents[w.n(len(w.agents))].renumber()
	case 14:
		if h.up && h.fromHub && (h.told != nil || h.posted != nil) && w.n(2) == 0 {
			h.handOver()
			h.lag()
			w.trace("%s is handed over to %s", h.name, h.boot)
		}
	case 15:
		if ns := namespaces[w.n(len(namespaces))]; w.server.refusing[ns] || w.n(3) == 0 {
			w.server.refusing[ns] = !w.server.refusing[ns]
			w.trace("reports are refused in %s: %v", ns, w.server.refusing[ns])
		}
	case 16:
		w.sweep()
	case 18:
		if h.up && h.fromHub && w.n(3) == 0 {
			h.die(true)
			h.start()
			h.lag()
			h.link.cut = w.n(3) > 0
			w.trace("%s: its machine fails, and starts again as %s, cut off: %v", h.name, h.boot, h.link.cut)
		}
	case 17:
		w.endNamespace(namespaces[w.n(len(namespaces))])
	}
}

// alter backs the hub up, restores or replaces it. A hub that has changed is changed again at times, before it has settled.
func (w *World) alter() {
	w.persons()
	switch {
	case !w.Changes:
	case w.n(8) == 0 && w.change == nil:
		w.replace()
	case len(w.copies) == 0 || w.n(3) == 0:
		w.backUp()
	case w.change == nil || w.n(2) == 0:
		if c := w.copies[w.n(len(w.copies))]; time.Since(c.made) > 2*time.Second {
			w.restore(c)
		}
	}
}
