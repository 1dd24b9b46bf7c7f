package install_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// query is what a PromQL expression asks for. It is read by its words alone: the names of samples, their matchers, and
// what is grouped by.
type query struct {
	samples map[string][]string // labels that are matched
	grouped []string
}

var (
	text     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	number   = regexp.MustCompile(`\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b`)
	duration = regexp.MustCompile(`\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?(\s*\()?`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
	words    = []string{"and", "or", "unless", "offset", "bool", "inf", "nan"}
)

func parseQuery(expression string) (query, error) {
	q := query{samples: map[string][]string{}}
	e := text.ReplaceAllString(expression, `""`)
	if strings.Count(e, "(") != strings.Count(e, ")") || strings.Count(e, "{") != strings.Count(e, "}") || strings.Count(e, "[") != strings.Count(e, "]") {
		return q, fmt.Errorf("its brackets don't match")
	}
	e = number.ReplaceAllString(duration.ReplaceAllString(e, ""), "")
	for _, m := range grouping.FindAllStringSubmatch(e, -1) {
		for _, l := range strings.Split(m[1], ",") {
			if l = strings.TrimSpace(l); l != "" {
				q.grouped = append(q.grouped, l)
			}
		}
	}
	e = grouping.ReplaceAllString(e, "")
	for _, m := range selector.FindAllStringSubmatch(e, -1) {
		name, matchers, call := m[1], m[2], m[3]
		if call != "" || slices.Contains(words, strings.ToLower(name)) {
			continue
		}
		q.samples[name] = append(q.samples[name], labelsIn(matchers)...)
	}
	if len(q.samples) == 0 {
		return q, fmt.Errorf("it asks for nothing")
	}
	return q, nil
}

func labelsIn(matchers string) []string {
	var labels []string
	for _, m := range matcher.FindAllStringSubmatch(matchers, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// scraped are the labels that config/prometheus/scrape.yaml gives to all that it reads.
var scraped = []string{"job", "instance", "namespace", "pod", "node"}

// check says what of a query nobody shows; labels are those of a sample.
func (q query) check(labels func(sample string) (map[string]bool, bool)) error {
	all := map[string]bool{}
	for name, matched := range q.samples {
		has, known := labels(name)
		if !known {
			return fmt.Errorf("nobody shows %s", name)
		}
		for _, l := range scraped {
			has[l] = true
		}
		for _, l := range matched {
			if !has[l] {
				return fmt.Errorf("%s has no label %s, but %q", name, l, slices.Sorted(maps.Keys(has)))
			}
		}
		maps.Copy(all, has)
	}
	for _, l := range q.grouped {
		if !all[l] {
			return fmt.Errorf("nothing of it has a label %s", l)
		}
	}
	return nil
}
