package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Fault is how a call fails.
type Fault string

// Faults of a call.
const (
	// Refuses: it says that it won't, with ErrRefused.
	Refuses Fault = "refuses"
	// Fails: it fails, and may go well later; over HTTP a 500.
	Fails Fault = "fails"
	// Hangs: it doesn't return before the fault is over.
	Hangs Fault = "hangs"
	// Halves: it does half of what it should, or all of it, and then fails. SetMembers takes in or out every other one.
	Halves Fault = "halves"
	// Forgets: it says that it is done, and does nothing; Get finds nothing.
	Forgets Fault = "forgets"
)

// ErrRefused says that the cloud won't do a thing, however often it is asked.
var ErrRefused = errors.New("the cloud refuses this: its faults are set so")

var (
	errFails = errors.New("the cloud failed: its faults are set so")
	errHalf  = errors.New("the cloud failed when it was half done: its faults are set so")
)

// calls that can fail.
var calls = []string{"Get", "Ensure", "SetMembers", "Delete"}

// SetFaults says how calls fail, by their names (Get, Ensure, SetMembers, Delete); nil: none does. A call that hangs goes on by the new ones.
func (c *Cloud) SetFaults(faults map[string]Fault) error {
	for call, f := range faults {
		if !slices.Contains(calls, call) {
			return fmt.Errorf("faults: there is no call %q: it is one of %q", call, calls)
		}
		if !slices.Contains([]Fault{Refuses, Fails, Hangs, Halves, Forgets}, f) {
			return fmt.Errorf("faults: %s: there is no fault %q", call, f)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = maps.Clone(faults)
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// failing is how a call fails now; what fails it before anything is done is the error.
func (c *Cloud) failing(call string) (Fault, error) {
	for {
		c.mu.Lock()
		f, changed := c.faults[call], c.changed
		c.mu.Unlock()
		switch f {
		case Refuses:
			return f, ErrRefused
		case Fails:
			return f, errFails
		case Hangs:
			<-changed
		default:
			return f, nil
		}
	}
}

// half is what comes of a change of members that is half applied: of those that differ from what was told before, every other one.
func (l *loadBalancer) half(members []Member) []Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := func(all []Member, address string) int {
		return slices.IndexFunc(all, func(m Member) bool { return m.Address == address })
	}
	var out []Member
	changes := 0
	for _, m := range l.told {
		i := of(members, m.Address)
		if i >= 0 && members[i] == m {
			out = append(out, m)
			continue
		}
		if changes++; changes%2 == 0 {
			out = append(out, m) // as it was
		} else if i >= 0 {
			out = append(out, members[i])
		}
	}
	for _, m := range members {
		if of(l.told, m.Address) >= 0 {
			continue
		}
		if changes++; changes%2 == 1 {
			out = append(out, m)
		}
	}
	return out
}

// Settings are what a cloud's control address shows and takes.
type Settings struct {
	// ApplyDelay as Go writes durations, such as 5s.
	ApplyDelay string           `json:"applyDelay"`
	Faults     map[string]Fault `json:"faults,omitempty"`
}

// Control answers at the control address: GET shows the settings, PUT sets all of them. Whoever reaches it may break the cloud.
func (c *Cloud) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		b, err := json.Marshal(Settings{ApplyDelay: c.delay.String(), Faults: c.faults})
		c.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(b, '\n')) // whoever left asks again
	})
	mux.HandleFunc("PUT /{$}", func(w http.ResponseWriter, r *http.Request) {
		var s Settings
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			http.Error(w, "reading the settings: "+err.Error(), http.StatusBadRequest)
			return
		}
		delay, err := time.ParseDuration(s.ApplyDelay)
		if err != nil || delay < 0 {
			http.Error(w, fmt.Sprintf("applyDelay: %q is no duration: write it as 5s", s.ApplyDelay), http.StatusBadRequest)
			return
		}
		if err := c.SetFaults(s.Faults); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.SetApplyDelay(delay)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
