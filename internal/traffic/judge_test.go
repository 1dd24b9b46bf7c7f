package traffic

import (
	"strings"
	"testing"
	"time"
)

// records makes one good request every interval from 0 until end, but for those that skip names.
func records(end, interval time.Duration, skip func(time.Duration) bool) []record {
	rs := []record{}
	for at := time.Duration(0); at < end; at += interval {
		if !skip(at) {
			rs = append(rs, record{begun: at, took: time.Millisecond, text: -1})
		}
	}
	return rs
}

func judged(rs []record) Report {
	st := &stream{service: Service{Name: "web", Ways: []Way{{Name: "edge-1"}}, Rate: 200}, records: rs, names: []Identity{{"red", "default", "web-1", "node-1"}}}
	return st.judge(time.Now(), time.Second, 8*time.Second)
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	never := func(time.Duration) bool { return false }
	broken := records(9*time.Second, 4*time.Millisecond, never)
	broken[500].failure = FailureRefused
	open := records(9*time.Second, 4*time.Millisecond, never)
	open[500].took = 0
	slow := records(9*time.Second, 10*time.Millisecond, never)
	slow[500].failure = FailureRefused
	for _, c := range []struct {
		name    string
		records []record
		want    string // contained in the verdict; "" for none
	}{
		{"whole", records(9*time.Second, 4*time.Millisecond, never), ""},
		{"too slow", records(9*time.Second, 10*time.Millisecond, never), "only 100 requests a second"},
		{"nothing sent", nil, "only 0 requests a second"},
		{"a hole in the sending", records(9*time.Second, 4*time.Millisecond, func(at time.Duration) bool {
			return at > 4*time.Second && at < 5200*time.Millisecond
		}), "nothing was sent for 1.2"},
		{"nothing sent at the end", records(6900*time.Millisecond, 4*time.Millisecond, never), "nothing was sent for 1.1"},
		{"one failure", broken, "1 of 1750 requests failed (1 refused)"},
		{"one without an end", open, "1 of 1750 requests failed (1 timeout)"},
		{"too slow, and one failure", slow, "1 of 700 requests failed (1 refused)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := judged(c.records)
			got := r.Verdict()
			if got == "" && c.want != "" || !strings.Contains(got, c.want) {
				t.Errorf("verdict %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyBetween(t *testing.T) {
	t.Parallel()
	never := func(time.Duration) bool { return false }
	// The window begins at 1 s; requests fail from 4 s to 6 s.
	broken := records(9*time.Second, 4*time.Millisecond, never)
	for i := range broken {
		if at := broken[i].begun; at >= 4*time.Second && at < 6*time.Second {
			broken[i].failure = FailureRefused
		}
	}
	slow := records(9*time.Second, 10*time.Millisecond, never)
	slow[700].failure = FailureRefused
	for _, c := range []struct {
		name     string
		records  []record
		from, to time.Duration
		want     string // contained in the answer; "" for none
	}{
		{"within", broken, 4 * time.Second, 6 * time.Second, ""},
		{"too early", broken, 5500 * time.Millisecond, 8 * time.Second, "250 requests failed -1.5s after it began"},
		{"too late", broken, 2 * time.Second, 4500 * time.Millisecond, "250 requests failed 3s after it began, which may last 2.5s"},
		{"none", records(9*time.Second, 4*time.Millisecond, never), 4 * time.Second, 6 * time.Second, "the claim could not fail"},
		{"too slow", records(9*time.Second, 10*time.Millisecond, never), 4 * time.Second, 6 * time.Second, "too busy"},
		{"too slow, and too late", slow, 2 * time.Second, 4500 * time.Millisecond, "1 requests failed 5s after it began"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := judged(c.records)
			got := r.OnlyBetween(r.Began.Add(c.from-time.Second), r.Began.Add(c.to-time.Second))
			if got == "" && c.want != "" || got != "" && c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestGapIsBetweenRightAnswers(t *testing.T) {
	t.Parallel()
	rs := records(9*time.Second, 4*time.Millisecond, func(time.Duration) bool { return false })
	for i := range rs {
		if rs[i].begun >= 3*time.Second && rs[i].begun < 3500*time.Millisecond {
			rs[i].failure = FailureRefused
		}
	}
	r := judged(rs)
	if r.LongestGap < 500*time.Millisecond || r.LongestGap > 510*time.Millisecond {
		t.Errorf("longest gap %s, want half a second", r.LongestGap)
	}
	if r.Seconds[2].Failed != 125 || r.Seconds[1].Failed != 0 {
		t.Errorf("failures by second: %v", r.Seconds)
	}
}
