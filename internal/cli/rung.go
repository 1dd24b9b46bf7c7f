package cli

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State of a rung.
type State string

const (
	// OK: nothing to do.
	OK State = "ok"
	// Warning: it serves, and something deserves a look.
	Warning State = "warning"
	// Waiting: it is on its way; somebody else's move.
	Waiting State = "waiting"
	// Broken: it doesn't serve until somebody mends it.
	Broken State = "broken"
	// Skipped: not looked at, or not reached.
	Skipped State = "skipped"
)

// Sign is one character for people.
func (s State) Sign() string {
	return map[State]string{OK: "✓", Warning: "!", Waiting: "…", Broken: "✗", Skipped: "–"}[s]
}

// bad: it doesn't serve now.
func (s State) bad() bool { return s == Broken || s == Waiting }

// Rung is one step between a Service and its members.
type Rung struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Message says what is so; of a broken rung, why.
	Message string `json:"message,omitempty"`
	// Evidence is what it was told by: which proxy, which check, which error.
	Evidence []Evidence `json:"evidence,omitempty"`
	// Since the state is so, where that is known.
	Since *metav1.Time `json:"since,omitempty"`
	// Fix is what to do; only on the first rung that doesn't serve.
	Fix string `json:"fix,omitempty"`
}

// Evidence is one finding below a rung.
type Evidence struct {
	State State        `json:"state"`
	Text  string       `json:"text"`
	Since *metav1.Time `json:"since,omitempty"`
}

// Explanation is why a Service or LoadBalancer is served, or isn't.
type Explanation struct {
	Subject string `json:"subject"`
	// Served: every rung that was looked at holds.
	Served bool   `json:"served"`
	Rungs  []Rung `json:"rungs"`
	// Now is the hub's time when it was asked.
	Now time.Time `json:"now"`
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
