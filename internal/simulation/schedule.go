package simulation

import (
	"testing/synctest"
	"time"
)

// step lets time pass or something happen.
func (w *World) step() {
	w.refuse()
	w.recur()
	if w.n(25) == 0 {
		w.sleep(w.temper.pauses[w.n(len(w.temper.pauses))])
		return
	}
	w.act()
}

// sleep lets time pass. Managers that run try for their Lease meanwhile, by timers of their own.
func (w *World) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	for i := range w.mgrs {
		if w.Tempers.Standstills && !w.calm && w.n(2) == 0 {
			continue // What it does next may come before its timers.
		}
		w.mgrs[i].elect()
	}
}

// act is one thing that happens.
func (w *World) act() {
	if w.Machines && w.actMachines() {
		return
	}
	if w.Checks && w.n(12) == 0 {
		w.hosts[w.n(hosts)].check()
		return
	}
	switch x := w.n(1000); {
	case x < w.temper.users:
		w.agents[w.n(len(w.agents))].user()
		return
	case x < w.temper.users+w.temper.chaos:
		if !w.inside {
			w.chaos()
		}
		return
	}
	switch x := w.n(195); {
	case x < 40:
		if h := w.hosts[w.n(hosts)]; h.up {
			w.pump(h.link)
		}
	case x < 55:
		w.hosts[w.n(hosts)].turn()
	case x < 85:
		w.hosts[w.n(hosts)].report()
	case x < 90:
		for _, h := range w.hosts {
			h.renew()
		}
	case x < 92:
		w.mgrs[w.n(2)].elect()
	case x < 116:
		if m := w.mgrs[w.n(2)]; !m.stands() {
			w.delay(m)
			w.pump(m.link)
		}
	case x < 140:
		m := w.mgrs[w.n(2)]
		if m.stands() {
			break
		}
		for _, k := range m.link.kinds {
			if w.n(2) == 0 {
				m.handle(k, 1+w.n(4))
			}
		}
		m.begin()
	case x < 170:
		if m := w.mgrs[w.n(2)]; !m.stands() && (w.working == 0 || w.inside && m != w.writer) {
			w.work(m)
		}
	case x < 176:
		if m := w.mgrs[w.n(2)]; !m.stands() {
			m.follow()
		}
	case x < 186:
		w.agents[w.n(len(w.agents))].step()
	case x < 193:
		w.hosts[w.n(hosts)].traffic()
	case len(w.delayed) > 0:
		i := w.n(len(w.delayed))
		f := w.delayed[i]
		w.delayed = append(w.delayed[:i], w.delayed[i+1:]...)
		_, err := f()
		w.trace("a late request runs: %v", err)
	}
}

// pump moves one watch of a link, or some of all.
func (w *World) pump(l *link) {
	all := w.n(3) == 0
	for i, k := range l.kinds {
		if all && w.n(4) > 0 || !all && i == w.n(len(l.kinds)) {
			l.pump(k, 1+w.n(4))
		}
	}
}

// work has a manager reconcile one LoadBalancer or Address.
func (w *World) work(m *manager) {
	before, had := w.writer, w.heard
	w.writer, w.heard = m, m.heard.clone()
	switch w.n(5) {
	case 0, 1:
		m.work(m.lbQueue, m.lbs)
	case 2, 3:
		m.work(m.adQueue, m.addrs)
	default:
		if w.n(3) == 0 && m.work(m.epQueue, m.epochs) || w.n(2) == 0 && m.work(m.asQueue, m.asks) {
			break
		}
		if w.n(2) == 0 || w.has(NothingAdopted) || !m.work(m.apQueue, m.adoption) {
			m.work(m.tgQueue, m.groups)
		}
	}
	w.writer, w.heard = before, had
}

// interleave lets something else happen while a request is on its way.
func (w *World) interleave() {
	if w.inside || w.calm || w.n(4) > 0 {
		return
	}
	w.inside = true
	for range 1 + w.n(4) {
		w.act()
		w.judgeServed()
	}
	w.inside = false
}

func (w *World) links() []*link {
	out := []*link{w.mgrs[0].link, w.mgrs[1].link}
	for _, h := range w.hosts {
		if h.up {
			out = append(out, h.link)
		}
	}
	for _, a := range w.agents {
		out = append(out, a.link)
	}
	return out
}
