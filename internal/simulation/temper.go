package simulation

import "time"

// temper is what one schedule has much of, and what it lacks. Schedules that each have all faults, equally often, are much alike: most
// never come to what needs quiet before the storm, or one fault for long.
type temper struct {
	// fault is one of how many requests; 0: none.
	fault int
	// users and chaos are shares of what happens, in thousandths.
	users, chaos int
	// pauses are what time passes by.
	pauses []time.Duration
	// spared are the kinds of chaos that don't happen.
	spared [chaosKinds]bool
}

func (w *World) drawTemper() {
	w.temper = temper{
		fault: []int{0, 8, 15, 15, 40}[w.n(5)],
		users: []int{10, 20, 50}[w.n(3)],
		chaos: []int{5, 10, 20, 40}[w.n(4)],
	}
	short := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}
	w.temper.pauses = [][]time.Duration{short, short, append(short, 10*time.Second, 10*time.Second)}[w.n(3)]
	for k := range w.temper.spared {
		w.temper.spared[k] = w.n(4) == 0
	}
	if w.Tempers.Failures {
		w.temper.fault = 3
	}
}

// Tempers have what is rare happen often.
type Tempers struct {
	// Late is a resource of which managers hear late, by its plural name; empty: none.
	Late string
	// Standstills has managers stand still between a look and a write, and go on before they look at their Lease.
	Standstills bool
	// Refusals has namespaces take no reports for a while.
	Refusals bool
	// Endings has namespaces end as soon as the hub was restored.
	Endings bool
	// Restores has the hub restored again and again.
	Restores bool
	// Failures has one of three requests fail.
	Failures bool
	// Starts has processes of proxies start anew again and again, and often hear of one resource late.
	Starts bool
	// Swings has people disable Machines, and have them back, again and again.
	Swings bool
}

// delay has a manager hear late of what the tempers name.
func (w *World) delay(m *manager) {
	if w.Tempers.Late == "" || w.calm || w.n(4) > 0 {
		return
	}
	for _, k := range m.link.kinds {
		if k.String() == w.Tempers.Late && !time.Now().Before(m.link.late[k]) {
			m.link.late[k] = time.Now().Add(time.Duration(1+w.n(10)) * time.Second)
		}
	}
}

// standstills are one of how many writes.
func (w *World) standstills() int {
	if w.Tempers.Standstills {
		return 6
	}
	return 60
}

// refuse has a namespace take no reports, or take them again, where the tempers have that happen often.
func (w *World) refuse() {
	if w.Tempers.Refusals && !w.inside && w.n(30) == 0 {
		ns := namespaces[w.n(len(namespaces))]
		w.server.refusing[ns] = !w.server.refusing[ns]
	}
}

// recur has the hub change, or a process start anew, where the tempers have that happen often.
func (w *World) recur() {
	w.swing()
	if w.Tempers.Starts && !w.inside && w.n(40) == 0 {
		if h := w.hosts[w.n(hosts)]; h.up && h.fromHub {
			h.die(false)
			h.start()
			h.lag()
			w.trace("%s starts anew as %s", h.name, h.boot)
		}
	}
	if w.Tempers.Restores && !w.inside && w.n(100) == 0 {
		w.alter()
	}
}

// end ends namespaces of a hub that was restored, where the tempers have that happen often.
func (w *World) end() {
	for _, ns := range namespaces {
		if w.Tempers.Endings {
			w.endNamespace(ns)
		}
	}
}
