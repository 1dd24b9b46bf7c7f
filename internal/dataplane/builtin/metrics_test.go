package builtin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestSeriesLiveAsLongAsWhatTheySpeakOf(t *testing.T) {
	web, _, _ := pair(t)
	registry := prometheus.NewRegistry()
	p := start(t, Options{Registerer: registry})
	p.apply(web)
	c := mustConnect(t, web.at)
	want := func(when string, lines ...string) {
		t.Helper()
		got := series(t, registry)
		if strings.Join(got, "\n") != strings.Join(lines, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(lines, "\n"))
		}
	}
	open := `open_connections tenant=tenant`
	connects := fmt.Sprintf("connects_total result=ok target=%s tenant=tenant 1", c.name)
	want("with one connection", `accepted_total loadbalancer=web tenant=tenant 1`, connects, "listeners 1", open+" 1")

	p.apply() // The connection goes on, and so do its series.
	until(t, "the listener is closed", func() bool { return counter(t, p.metrics.listeners) == 0 })
	want("without the frontend", `accepted_total loadbalancer=web tenant=tenant 1`, connects, open+" 1")

	c.Close()
	until(t, "the connection ends", func() bool { return len(p.Observe().Closing) == 0 })
	p.apply()
	want("after its last connection")
}

// series lists what registry holds that isn't 0, without our prefix.
func series(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.Metric {
			line := strings.TrimPrefix(f.GetName(), "fairlead_proxy_")
			for _, l := range m.Label {
				line += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				out = append(out, fmt.Sprintf("%s %v", line, v))
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestATenantsSeriesGoWithItsLastLoadBalancer(t *testing.T) {
	registry := prometheus.NewRegistry()
	p := start(t, Options{Registerer: registry})
	where, port := at("127.0.0.1", freePort(t, "127.0.0.1")), freePort(t, "127.0.1.1")
	web := service{name: "web", at: where, port: port, members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")}}
	p.apply(web)
	for range 2 { // nobody listens there
		if c, err := connect(where); err == nil {
			c.Close()
			t.Fatal("connected")
		}
	}
	listen(t, "m1", at("127.0.1.1", port))
	mustConnect(t, where).Close()
	if got := strings.Join(series(t, registry), "\n"); !strings.Contains(got, "refused_clients_total") || !strings.Contains(got, "retries_total") {
		t.Fatalf("series of a tenant in trouble:\n%s", got)
	}
	p.apply()
	until(t, "no series names the tenant", func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		p.apply() // lets go of what was open before
		return !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return slices.ContainsFunc(f.Metric, func(m *dto.Metric) bool {
				return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "tenant" })
			})
		})
	})
}
