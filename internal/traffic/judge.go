package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// longestPause is how long a generator may send nothing before its window proves nothing.
const longestPause = time.Second

// Report is what one Service answered in one window.
type Report struct {
	Service string
	// Began is when the window did, and Length how long it was.
	Began  time.Time
	Length time.Duration
	// Rate that the window must show, in requests a second.
	Rate int
	// Sent requests, and those of them that did not get a right answer.
	Sent, Failed int
	// Failures by kind.
	Failures map[Failure]int
	// Pods and Ways count right answers and requests.
	Pods map[string]int
	Ways map[string]WayCount
	// Seconds holds what was begun in each second of the window, and what of it failed.
	Seconds []Second
	// LongestGap is the longest time without a right answer, LongestPause that without a request begun.
	LongestGap, LongestPause time.Duration
	// P50 and P99 of the right answers' times.
	P50, P99 time.Duration
	// Examples of failures: when, through which way, what.
	Examples []string
	// Held connections: how many there were, and what became of those that were lost.
	Held int
	Lost []string
}

// WayCount counts the requests through one Way.
type WayCount struct{ Sent, Failed int }

// Second counts the requests begun in one second.
type Second struct{ Sent, Failed int }

// PerSecond is the rate that was really sent.
func (r *Report) PerSecond() float64 {
	if r.Length <= 0 {
		return 0
	}
	return float64(r.Sent) / r.Length.Seconds()
}

// Busy returns "" if enough was sent for the window to prove anything, else why that nothing failed in it proves nothing.
func (r *Report) Busy() string {
	switch {
	case r.PerSecond() < float64(r.Rate):
		return fmt.Sprintf("%s: only %.0f requests a second were sent, %d must be: this machine is too busy for the measure", r.Service, r.PerSecond(), r.Rate)
	case r.LongestPause > longestPause:
		return fmt.Sprintf("%s: nothing was sent for %s: this machine is too busy for the measure", r.Service, r.LongestPause.Round(time.Millisecond))
	}
	return ""
}

// Wrong returns "" if no request failed and every held connection stayed, else what did not: however little was sent.
func (r *Report) Wrong() string {
	if r.Failed > 0 {
		return fmt.Sprintf("%s: %d of %d requests failed (%s); first: %s", r.Service, r.Failed, r.Sent, r.kinds(), strings.Join(r.Examples, "; "))
	}
	return r.AllHeld()
}

// Verdict returns "" if the window proves that nothing failed, else why not.
func (r *Report) Verdict() string { return cmp.Or(r.Wrong(), r.Busy()) }

// FailedOutside returns "" if no request failed but between two moments, else how many did: however little was sent. It looks at
// whole seconds, and not at held connections.
func (r *Report) FailedOutside(from, to time.Time) string {
	for i, second := range r.Seconds {
		at := r.Began.Add(time.Duration(i) * time.Second)
		if second.Failed > 0 && (at.Add(time.Second).Before(from) || at.After(to)) {
			return fmt.Sprintf("%s: %d requests failed %s after it began, which may last %s; first: %s", r.Service, second.Failed,
				at.Sub(from).Round(time.Millisecond), to.Sub(from).Round(time.Millisecond), strings.Join(r.Examples, "; "))
		}
	}
	return ""
}

// OnlyBetween returns "" if the window proves that requests failed between two moments, and at no other: else why not. If none failed
// the measure could not fail. It looks where FailedOutside does.
func (r *Report) OnlyBetween(from, to time.Time) string {
	if why := cmp.Or(r.FailedOutside(from, to), r.Busy()); why != "" {
		return why
	}
	if r.Failed == 0 {
		return fmt.Sprintf("%s: none of %d requests failed: the claim could not fail", r.Service, r.Sent)
	}
	return ""
}

// AllHeld returns "" if every held connection stayed, else what became of them.
func (r *Report) AllHeld() string {
	if len(r.Lost) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d of %d held connections were lost; first: %s", r.Service, len(r.Lost), r.Held, r.Lost[0])
}

// String is one line with what was counted.
func (r *Report) String() string {
	s := fmt.Sprintf("%s: %d failed of %d at %.0f/s", r.Service, r.Failed, r.Sent, r.PerSecond())
	if r.Failed > 0 {
		s += " (" + r.kinds() + ")"
	}
	s += fmt.Sprintf(", p50 %s, p99 %s, longest gap %s", short(r.P50), short(r.P99), short(r.LongestGap))
	if r.Held > 0 {
		s += fmt.Sprintf(", %d of %d held", r.Held-len(r.Lost), r.Held)
	}
	return s
}

func (r *Report) kinds() string {
	parts := []string{}
	for _, k := range slices.Sorted(maps.Keys(r.Failures)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.Failures[k], k))
	}
	return strings.Join(parts, ", ")
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// judge looks at the requests begun from one moment to another. Times are
// offsets from start.
func (st *stream) judge(start time.Time, from, to time.Duration) Report {
	st.mu.Lock()
	records := slices.Clone(st.records)
	names, texts := slices.Clone(st.names), slices.Clone(st.errors)
	st.mu.Unlock()

	s := st.service
	r := Report{
		Service: s.Name, Began: start.Add(from), Length: to - from, Rate: s.Rate,
		Failures: map[Failure]int{}, Pods: map[string]int{}, Ways: map[string]WayCount{},
		Seconds: make([]Second, int((to-from+time.Second-1)/time.Second)),
	}
	took, good := []time.Duration{}, []time.Duration{from}
	lastBegun := from
	// Requests are begun in order.
	first, _ := slices.BinarySearchFunc(records, from, func(r record, t time.Duration) int { return cmp.Compare(r.begun, t) })
	for _, rec := range records[first:] {
		if rec.begun >= to {
			break
		}
		r.LongestPause = max(r.LongestPause, rec.begun-lastBegun)
		lastBegun = rec.begun
		failure, text := rec.failure, ""
		switch {
		case rec.took == 0:
			failure, text = FailureTimeout, "no end"
		case failure != "":
			if rec.text >= 0 {
				text = texts[rec.text]
			}
		case s.Allow != nil:
			if why := s.Allow(names[rec.who], start.Add(rec.begun)); why != "" {
				failure, text = FailureWrongPod, why
			}
		}
		second, way := &r.Seconds[(rec.begun-from)/time.Second], r.Ways[s.Ways[rec.way].Name]
		r.Sent++
		second.Sent++
		way.Sent++
		if failure != "" {
			r.Failed++
			second.Failed++
			way.Failed++
			r.Failures[failure]++
			if len(r.Examples) < 3 {
				r.Examples = append(r.Examples, fmt.Sprintf("after %s through %s: %s", (rec.begun-from).Round(time.Millisecond), s.Ways[rec.way].Name, text))
			}
		} else {
			took = append(took, rec.took)
			good = append(good, rec.begun+rec.took)
			r.Pods[names[rec.who].Pod]++
		}
		r.Ways[s.Ways[rec.way].Name] = way
	}
	r.LongestPause = max(r.LongestPause, to-lastBegun)
	slices.Sort(took)
	if n := len(took); n > 0 {
		r.P50, r.P99 = took[n/2], took[n*99/100]
	}
	slices.Sort(good)
	for i, at := range append(good, to)[1:] {
		r.LongestGap = max(r.LongestGap, at-good[i])
	}
	return r
}
