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
}
