package proof

import (
	"slices"
	"testing"
	"time"
)

func TestMissingHoldersAreWaitedFor(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	day, soon, past := now.Add(MissingHold), now.Add(time.Minute), now.Add(-time.Second)
	for name, c := range map[string]struct {
		noted   Missing
		missing []string
		want    Missing
		over    bool
	}{
		"none is missing":             {},
		"they are back":               {noted: Missing{[]string{"a/x"}, soon}},
		"one is missing":              {missing: []string{"a/x"}, want: Missing{[]string{"a/x"}, day}},
		"still":                       {noted: Missing{[]string{"a/x"}, soon}, missing: []string{"a/x"}, want: Missing{[]string{"a/x"}, soon}},
		"long enough":                 {noted: Missing{[]string{"a/x"}, past}, missing: []string{"a/x"}, want: Missing{[]string{"a/x"}, past}, over: true},
		"another one as well":         {noted: Missing{[]string{"a/x"}, past}, missing: []string{"b/y", "a/x"}, want: Missing{[]string{"a/x", "b/y"}, day}},
		"one of two is back":          {noted: Missing{[]string{"a/x", "b/y"}, soon}, missing: []string{"b/y"}, want: Missing{[]string{"b/y"}, soon}},
		"what is noted can't be read": {noted: Missing{[]string{"a/x"}, time.Time{}}, missing: []string{"a/x"}, want: Missing{[]string{"a/x"}, day}},
	} {
		got, over := JudgeMissing(c.noted, c.missing, now)
		if !slices.Equal(got.Holders, c.want.Holders) || !got.Until.Equal(c.want.Until) || over != c.over {
			t.Errorf("%s: %+v, over %v", name, got, over)
		}
	}
}
