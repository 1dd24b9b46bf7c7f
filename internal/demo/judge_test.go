package demo

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/fleet"
	"fairlead.dev/fairlead/internal/traffic"
)

// made is what a window of ten seconds measured in which that many requests were sent and failed, in its last second.
func made(sent, failed int) traffic.Report {
	r := traffic.Report{Service: "web", Began: time.Unix(0, 0), Length: 10 * time.Second, Rate: rate, Sent: sent, Failed: failed, Seconds: make([]traffic.Second, 10)}
	r.Seconds[9].Failed = failed
	return r
}

// lost is a report of a window that lost a connection.
func lost(r traffic.Report) traffic.Report {
	r.Held, r.Lost = held, []string{"reset"}
	return r
}

func TestAStepThatProvesNothingIsToldAgain(t *testing.T) {
	t.Parallel()
	whole, busy := made(10*rate, 0), made(9*rate, 0)
	silent := made(10*rate, 0)
	silent.LongestPause = 2 * time.Second
	for name, c := range map[string]struct {
		windows []traffic.Report // of one try after the other
		once    bool             // it can't be told again
		says    []string         // what each line says
		err     string           // contained; "" for none
	}{
		"whole":                                {windows: []traffic.Report{whole}, says: []string{"x ok"}},
		"busy once":                            {windows: []traffic.Report{busy, whole}, says: []string{"x busy", "x ok"}},
		"silent once":                          {windows: []traffic.Report{silent, whole}, says: []string{"x busy", "x ok"}},
		"busy twice":                           {windows: []traffic.Report{busy, busy, whole}, says: []string{"x busy", "x busy", "x ok"}},
		"busy each time":                       {windows: []traffic.Report{busy, busy, busy}, says: []string{"x busy", "x busy", "x FAIL"}, err: "proves nothing, told 3 times: web: only 180 requests a second"},
		"busy, and can't be told again":        {windows: []traffic.Report{busy}, once: true, says: []string{"x FAIL"}, err: "proves nothing, told 1 times"},
		"one failed":                           {windows: []traffic.Report{made(10*rate, 1)}, says: []string{"x FAIL"}, err: "1 of 2000 requests failed"},
		"one failed in a busy window":          {windows: []traffic.Report{made(10, 1)}, says: []string{"x FAIL"}, err: "1 of 10 requests failed"},
		"a connection lost in a busy window":   {windows: []traffic.Report{lost(made(10, 0))}, says: []string{"x FAIL"}, err: "held connections were lost"},
		"one failed after a window was busy":   {windows: []traffic.Report{busy, made(10*rate, 1)}, says: []string{"x busy", "x FAIL"}, err: "1 of 2000 requests failed"},
		"one failed in a later, busy window":   {windows: []traffic.Report{busy, made(10, 1)}, says: []string{"x busy", "x FAIL"}, err: "1 of 10 requests failed"},
		"a connection lost in a second window": {windows: []traffic.Report{busy, lost(whole)}, says: []string{"x busy", "x FAIL"}, err: "held connections were lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told, lines := 0, []string{}
			s := &common{Fleet: &fleet.Fleet{}, say: func(format string, args ...any) {
				lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
			}}
			run := func(_ context.Context, s *story) (string, error) {
				told++
				return "", s.nothingFailed(c.windows[told-1])
			}
			err := s.tell(t.Context(), rounds([]step{{name: "x", run: run, again: !c.once}})[0])
			if told != len(c.windows) || len(lines) != len(c.says) || s.repeated.Load() != int64(told-1) {
				t.Fatalf("told %d times, and repeated %d, of %d; it says %q", told, s.repeated.Load(), len(c.windows), lines)
			}
			for i, line := range lines {
				if !strings.Contains(line, c.says[i]) || strings.Contains(line, "busy") && !strings.Contains(line, "too busy for the measure") {
					t.Errorf("line %d is %q, want %q and why", i, line, c.says[i])
				}
			}
			if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v, want %q", err, c.err)
			}
		})
	}
}

// Where requests may fail for a while, those that fail at another time have failed, however little was sent.
func TestFailuresInABusyWindowCount(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	for name, c := range map[string]struct {
		report   traffic.Report
		from, to time.Time
		err      string
		busy     bool
	}{
		"within":             {report: made(10*rate, 5), from: at(9), to: at(10)},
		"outside":            {report: made(10*rate, 5), from: at(2), to: at(4), err: "5 requests failed"},
		"none":               {report: made(10*rate, 0), from: at(2), to: at(4), err: "could not fail"},
		"busy, and within":   {report: made(10, 5), from: at(9), to: at(10), busy: true},
		"busy, and outside":  {report: made(10, 5), from: at(2), to: at(4), err: "5 requests failed"},
		"busy, and none did": {report: made(10, 0), from: at(2), to: at(4), busy: true},
	} {
		s := &story{common: &common{}}
		err := s.onlyBetween(&c.report, c.from, c.to)
		if err == nil && c.err != "" || err != nil && (c.err == "" || !strings.Contains(err.Error(), c.err)) || len(s.busy) > 0 != c.busy {
			t.Errorf("%s: %v, want %q; busy: %q", name, err, c.err, s.busy)
		}
	}
	few, many := made(10, 0), made(10*rate, 0)
	if err := eachAnswers(&few, []string{"web-1"}); err != nil {
		t.Errorf("a Pod got nothing where nothing is proven: %v", err)
	}
	if err := eachAnswers(&many, []string{"web-1"}); err == nil {
		t.Error("a Pod that got nothing passes")
	}
}
