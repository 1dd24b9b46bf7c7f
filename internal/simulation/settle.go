package simulation

import (
	"time"
)

// settle stops all faults and waits for the end.
func (w *World) settle() {
	w.trace("faults stop")
	w.calm = true
	w.endRivalry()
	for _, f := range w.delayed {
		_, _ = f()
	}
	w.delayed = nil
	clear(w.server.refusing)
	for _, m := range w.mgrs {
		m.paused = time.Time{}
	}
	for _, h := range w.hosts {
		if !h.up && h.made && !h.fenced {
			if h.on || w.n(2) == 0 {
				h.start()
			} else {
				w.fence(h)
			}
		}
	}
	w.mend()
	for _, l := range w.links() {
		if l.cut {
			l.cut = false
			l.broken()
		}
		l.late = [kinds]time.Time{}
	}
	why, restless := "-", 0
	for i := 0; i < 200 && why != "" && w.result.Broken == ""; i++ {
		if restless++; w.round(time.Second) {
			restless = 0
		}
		if restless > 20 {
			w.broken("no rest: there is always something to be done")
		}
		if i > 3 {
			why = w.unfinished()
		}
	}
	if why != "" {
		w.broken("no end: %s", why)
		return
	}
	for range 45 { // the longest pause of all
		w.round(time.Second)
	}
	writes := w.server.writes
	for range 15 {
		w.round(time.Second)
	}
	if n := w.server.writes - writes; n > 0 {
		w.broken("%d writes at rest", n)
	}
	if why := w.unfinished(); why != "" {
		w.broken("it didn't last: %s", why)
	}
}

// round lets everybody do all that there is to do, then time pass. False: there was no end of it.
func (w *World) round(d time.Duration) (rested bool) {
	for turns := 0; !rested && turns < 60; turns++ {
		busy := false
		for _, l := range w.links() {
			for _, k := range l.kinds {
				busy = l.pump(k, 100) && (k != leases) || busy
			}
		}
		for _, h := range w.hosts {
			h.checkAll()
			busy = h.turn() || busy
			busy = h.report() || busy
			h.renew()
		}
		for i := range w.mgrs {
			w.mgrs[i].elect()
			m := w.mgrs[i]
			for k := range kinds {
				m.handle(k, 100)
			}
			m.begin()
			m.follow()
			w.writer, w.heard = m, m.heard
			for n := 0; n < 50 && (m.work(m.lbQueue, m.lbs) || m.work(m.adQueue, m.addrs) || m.work(m.tgQueue, m.groups) || m.work(m.epQueue, m.epochs) || m.work(m.asQueue, m.asks) || !w.has(NothingAdopted) && m.work(m.apQueue, m.adoption) || m.workMembers()); n++ {
				busy = true
			}
			w.writer = nil
		}
		for _, a := range w.agents {
			busy = a.step() || busy
		}
		busy = w.clusterAPIActs() || busy
		w.sweep()
		w.persons()
		w.tidy()
		w.judgeServed()
		rested = !busy
	}
	for _, h := range w.hosts {
		for range 5 {
			h.traffic()
		}
	}
	w.sleep(d)
	return rested
}
