package cli

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sign is one character for people.
func (s State) Sign() string {
	return map[State]string{OK: "✓", Warning: "!", Waiting: "…", Broken: "✗", Skipped: "–"}[s]
}

// bad: it doesn't serve now.
func (s State) bad() bool { return s == Broken || s == Waiting }

// rank orders states, the worst first.
func rank(s State) int {
	return map[State]int{Broken: 0, Waiting: 1, Warning: 2, OK: 3, Skipped: 4}[s]
}

// worse is the worse of two.
func worse(a, b State) State {
	if rank(b) < rank(a) {
		return b
	}
	return a
}

// conclude finds the first rung that doesn't serve, and leaves out what lies behind it.
func (e *Explanation) conclude() {
	e.Served = true
	for i := range e.Rungs {
		r := &e.Rungs[i]
		if !r.State.bad() {
			continue
		}
		if e.Served {
			e.Served = false
			if r.Fix == "" {
				r.Fix = Fix(r.Reason)
			}
			continue
		}
		r.Fix = ""
	}
}

// First is the first rung that doesn't serve; nil: all do.
func (e *Explanation) First() *Rung {
	for i := range e.Rungs {
		if e.Rungs[i].State.bad() {
			return &e.Rungs[i]
		}
	}
	return nil
}

// fromCondition fills a rung from a condition that speaks of it.
func (r *Rung) fromCondition(c *metav1.Condition, bad State) {
	r.Reason, r.Message = c.Reason, c.Message
	if !c.LastTransitionTime.IsZero() {
		r.Since = &c.LastTransitionTime
	}
	if c.Status == metav1.ConditionTrue {
		r.State = OK
	} else {
		r.State = bad
	}
}
