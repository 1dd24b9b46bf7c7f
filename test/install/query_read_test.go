package install_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// The reader of queries notices what it is there for.
func TestQueriesAreRead(t *testing.T) {
	labels := func(sample string) (map[string]bool, bool) {
		switch sample {
		case "asked_total":
			return map[string]bool{"result": true}, true
		case "took_seconds_bucket":
			return map[string]bool{"le": true, "event": true}, true
		}
		return nil, false
	}
	for expression, want := range map[string]string{
		`sum by (result) (rate(asked_total{result!="ok", job="x"}[5m])) > 0`:             "",
		`histogram_quantile(0.99, sum by (le, event) (rate(took_seconds_bucket[$__x])))`: "",
		`asked_total{job="a"} / on (instance) asked_total{result="b{c}("}`:               "",
		`sum(rate(asked_total[5m]`:                              "brackets",
		`sum(rate(other_total[5m]))`:                            "nobody shows other_total",
		`sum(asked_total{reason="x"})`:                          "asked_total has no label reason",
		`sum by (reason) (asked_total)`:                         "nothing of it has a label reason",
		`histogram_quantile(0.9, rate(took_seconds[5m]))`:       "nobody shows took_seconds",
		`asked_total unless other_total`:                        "nobody shows other_total",
		`time() > 5`:                                            "asks for nothing",
		`absent(asked_total) or sum without (le) (asked_total)`: "nothing of it has a label le",
	} {
		q, err := parseQuery(expression)
		if err == nil {
			err = q.check(labels)
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v (%q)", expression, err, slices.Sorted(maps.Keys(q.samples)))
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
}
