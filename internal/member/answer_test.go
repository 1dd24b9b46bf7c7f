package member

import (
	"maps"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
)

const wanted, answer = WantedPrefix + "api", AnswerPrefix + "api"

// An answer counts for what is wanted now: it is taken off with the question, in one write, and one that doesn't fit is none.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		have     map[string]string
		draining bool
		want     Sight
		waits    string
	}{
		"nothing wanted":           {have: map[string]string{answer: "Healthy"}},
		"no answer":                {have: map[string]string{wanted: "Serving"}},
		"healthy":                  {have: map[string]string{wanted: "Serving", answer: " Healthy: all is well"}, want: Sight{Live: 1, Healthy: 1}},
		"unhealthy":                {have: map[string]string{wanted: "Serving", answer: "Unhealthy: refused: by 10.0.0.1"}, want: Sight{Live: 1, Unhealthy: 1, Why: "refused: by 10.0.0.1"}},
		"gone, though it is to be": {have: map[string]string{wanted: "Serving", answer: "Gone"}, want: Sight{Live: 1, Unhealthy: 1, Why: "Gone"}},
		"another word":             {have: map[string]string{wanted: "Serving", answer: "healthy"}},
		"another's":                {have: map[string]string{wanted: "Serving", answer + "x": "Healthy"}},
		"not asked to drain yet":   {have: map[string]string{wanted: "Serving", answer: "Gone"}, draining: true, waits: "Gone yet"},
		"drains":                   {have: map[string]string{wanted: "Draining", answer: "Draining: 3 connections"}, draining: true, waits: "but Draining: 3 connections"},
		"still healthy":            {have: map[string]string{wanted: "Draining", answer: "Healthy"}, draining: true, waits: "but Healthy"},
		"long":                     {have: map[string]string{wanted: "Draining", answer: strings.Repeat("é", 500)}, draining: true, waits: "…"},
		"gone":                     {have: map[string]string{wanted: "Draining", answer: "Gone"}, draining: true, want: Sight{Gone: true}},
		"gone, with a word":        {have: map[string]string{wanted: "Draining", answer: "Gone: at noon"}, draining: true, want: Sight{Gone: true}},
		"not asked to serve yet":   {have: map[string]string{wanted: "Draining", answer: "Healthy"}},
	} {
		got := Answered(c.have, "api", "F5 x", c.draining)
		if !strings.Contains(got.Waits, c.waits) || (got.Waits == "") != (c.waits == "") || len(got.Waits) > 400 {
			t.Errorf("%s: waits for %q", name, got.Waits)
		}
		got.Waits, c.want.By = "", "F5 x"
		if got.Live != c.want.Live || got.Healthy != c.want.Healthy || got.Unhealthy != c.want.Unhealthy || got.Why != c.want.Why || got.Gone != c.want.Gone || got.By != c.want.By {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Whatever is wanted one after the other, and whenever somebody answers: no answer outlives its question, what others wrote stays,
// and of two LoadBalancers neither touches the other's.
func TestAnswersGoWithTheirQuestion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have := map[string]string{"example.com/x": "y", AnswerPrefix + "internal": "Gone"}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "answers") {
				have[answer] = rapid.SampledFrom([]string{"Healthy", "Gone", "Unhealthy"}).Draw(t, "answer")
			}
			before := maps.Clone(have)
			to := rapid.SampledFrom([]v1alpha1.TargetState{Absent, v1alpha1.TargetServing, v1alpha1.TargetDraining}).Draw(t, "to")
			state := rapid.SampledFrom([]State{"", Active, Removing}).Draw(t, "state")
			next := Annotate(have, "api", Decision{State: state, Asked: to}, clusterv1.HookNone, false)
			if WantedIn(next, "api") != to || next["example.com/x"] != "y" || next[AnswerPrefix+"internal"] != "Gone" || !maps.Equal(before, have) {
				t.Fatalf("%v becomes %v", before, next)
			}
			if changed := WantedIn(before, "api") != to; changed && next[answer] != "" || !changed && next[answer] != before[answer] {
				t.Fatalf("%v becomes %v", before, next)
			}
			have = next
		}
		if got := Strip(have); got[wanted] != "" || got["example.com/x"] != "y" {
			t.Fatalf("stripped, %v is %v", have, got)
		}
	})
}

func TestQuestionsAreKeysThatAnAPIServerTakes(t *testing.T) {
	for _, key := range []string{WantedPrefix + strings.Repeat("a", 63), AnswerPrefix + "a.b-c"} {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			t.Errorf("%s: %v", key, errs)
		}
	}
}
