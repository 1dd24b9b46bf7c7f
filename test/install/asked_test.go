package install_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"
)

// alerts is config/prometheus/rules.yaml.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr string
			For         string
			Annotations map[string]string
		}
	}
}

// dashboard is config/dashboard/fairlead.json, as far as it matters here.
type dashboard struct {
	Title      string
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []panel
}

type panel struct {
	Title, Type string
	Targets     []struct{ Expr string }
	Panels      []panel
}

// testQueries holds each query of the dashboard and of the alerts to what is shown.
func testQueries(t *testing.T, shown exposition) {
	of := labelsOf(t, shown)
	for where, expression := range queries(t) {
		q, err := parseQuery(expression)
		if err == nil {
			err = q.check(of)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", where, expression, err)
		}
	}
}

// labelsOf are those of samples that processes show, or declare.
func labelsOf(t *testing.T, shown exposition) func(sample string) (map[string]bool, bool) {
	t.Helper()
	known := declared(t)
	return func(sample string) (map[string]bool, bool) {
		if sample == "up" { // Prometheus's own
			return map[string]bool{}, true
		}
		labels, ok := shown.labels(sample)
		if m, too := known[sample]; too && shown[sample].GetType() != dto.MetricType_HISTOGRAM {
			ok = true
			for _, l := range m.labels {
				labels[l] = true
			}
		}
		return labels, ok
	}
}

// queries are all expressions, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	a := alerts{}
	if err := yaml.UnmarshalStrict(readFile(t, "config/prometheus/rules.yaml"), &a); err != nil {
		t.Fatal(err)
	}
	for _, g := range a.Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("alert %s doesn't say what is wrong, and what to do", r.Alert)
			}
		}
	}
	d := dashboard{}
	if err := json.Unmarshal(readFile(t, "config/dashboard/fairlead.json"), &d); err != nil {
		t.Fatal(err)
	}
	var each func([]panel)
	each = func(panels []panel) {
		for _, p := range panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("panel %q asks nothing", p.Title)
			}
			for _, target := range p.Targets {
				all["panel "+p.Title+": "+target.Expr] = variables.ReplaceAllString(target.Expr, "x")
			}
			each(p.Panels)
		}
	}
	each(d.Panels)
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			// label_values(SELECTOR, LABEL): the label must be one of the selector's.
			m := labelValues.FindStringSubmatch(v.Query)
			if m == nil {
				t.Errorf("variable %s: %s is not understood", v.Name, v.Query)
				continue
			}
			all["variable "+v.Name] = "sum by (" + m[2] + ") (" + m[1] + ")"
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d queries were found", len(all))
	}
	return all
}

var (
	variables   = regexp.MustCompile(`\$\{?\w+\}?`)
	labelValues = regexp.MustCompile(`^label_values\((.+),\s*(\w+)\)$`)
)

// testDocumented holds the table of docs/metrics.md to what is shown; -update writes it.
func testDocumented(t *testing.T, shown exposition, of map[string]string) {
	all := declared(t)
	for name, family := range shown {
		if _, known := all[name]; known || !strings.HasPrefix(name, "fairlead_") {
			continue
		}
		m := metric{help: family.GetHelp(), of: of[name]}
		for _, l := range family.GetMetric()[0].Label {
			m.labels = append(m.labels, l.GetName())
		}
		all[name] = m
	}
	table := "| metric | labels | of | says |\n| --- | --- | --- | --- |\n"
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(strings.Compare(all[a].of, all[b].of), strings.Compare(a, b))
	}) {
		m := all[name]
		slices.Sort(m.labels)
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, strings.Join(m.labels, ", "), m.of, m.help)
	}
	const page, begin, end = "docs/metrics.md", "<!-- begin of the table -->\n", "<!-- end of the table -->\n"
	head, rest, ok := strings.Cut(string(readFile(t, page)), begin)
	old, tail, both := strings.Cut(rest, end)
	if !ok || !both {
		t.Fatalf("%s has no place for its table", page)
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, page), []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s is not what is shown; run go test ./test/install -update. It should say:\n%s", page, table)
	}
}

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
