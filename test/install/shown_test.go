package install_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/controller/loadbalancer"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/dataplane/nftables"
	"fairlead.dev/fairlead/internal/health"
	"fairlead.dev/fairlead/internal/proxy"
	"fairlead.dev/fairlead/internal/resolve"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// exposition is what processes show, by the name of the family.
type exposition map[string]*dto.MetricFamily

// add adds what one process shows, and returns the names of its families.
func (e exposition) add(t *testing.T, text []byte) (names []string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		names = append(names, name)
		if known := e[name]; known != nil {
			known.Metric = append(known.Metric, f.Metric...)
		} else {
			e[name] = f
		}
	}
	return names
}

// value is the sum of a sample's values that have these labels; of histograms it knows the count.
func (e exposition) value(name string, labels map[string]string) (sum float64) {
	family, _ := e.family(name)
	if family == nil {
		return 0
	}
next:
	for _, m := range family.Metric {
		has := map[string]string{}
		for _, l := range m.Label {
			has[l.GetName()] = l.GetValue()
		}
		for k, v := range labels {
			if has[k] != v {
				continue next
			}
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// family is what a sample of that name belongs to, and whether it is a histogram's bucket.
func (e exposition) family(sample string) (f *dto.MetricFamily, bucket bool) {
	if f = e[sample]; f != nil && f.GetType() != dto.MetricType_HISTOGRAM {
		return f, false
	}
	for _, end := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, end); ok && e[name].GetType() == dto.MetricType_HISTOGRAM {
			return e[name], end == "_bucket"
		}
	}
	return nil, false
}

// labels are those of a sample; false: nobody shows it.
func (e exposition) labels(sample string) (map[string]bool, bool) {
	f, bucket := e.family(sample)
	labels := map[string]bool{}
	if bucket {
		labels["le"] = true
	}
	for _, m := range f.GetMetric() {
		for _, l := range m.Label {
			labels[l.GetName()] = true
		}
	}
	return labels, f != nil
}

// metric is what is known of a family beside its samples.
type metric struct {
	labels []string
	help   string
	of     string // who shows it
}

// declared are the metrics of the parts that say what they have before they show it: some are shown only once there is
// something to count, and one proxy has one data plane.
func declared(t *testing.T) map[string]metric {
	t.Helper()
	log, all := slog.New(slog.DiscardHandler), map[string]metric{}
	loadbalancer.NewMetrics(registrar{"manager", all})
	proxy.NewMetrics(registrar{"proxy", all})
	checker := health.New(health.Options{Logger: log, Registerer: registrar{"proxy", all}})
	checker.Close()
	names := resolve.New(resolve.Options{Logger: log, Registerer: registrar{"proxy", all}})
	names.Close()
	builtin.New(builtin.Options{Logger: log, Registerer: registrar{"proxy, builtin", all}})
	if _, err := nftables.New(nftables.Options{Logger: log, Registerer: registrar{"proxy, nftables", all}}); err != nil {
		t.Fatal(err)
	}
	return all
}

// registrar notes what a part registers.
type registrar struct {
	of  string
	all map[string]metric
}

var descriptor = regexp.MustCompile(`fqName: "([^"]+)", help: ("(?:[^"\\]|\\.)*"), .*constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`)

// Register notes what a collector describes.
func (r registrar) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc)
	go func() {
		c.Describe(described)
		close(described)
	}()
	for d := range described {
		m := descriptor.FindStringSubmatch(d.String())
		if m == nil {
			return fmt.Errorf("not understood: %s", d)
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			return fmt.Errorf("the help of %s: %w", m[1], err)
		}
		known := metric{help: help, of: r.of}
		if m[3] != "" {
			known.labels = strings.Split(m[3], ",")
		}
		if both, ok := r.all[m[1]]; ok {
			known.of, known.help = "proxy", both.help // both data planes have it
		}
		r.all[m[1]] = known
	}
	return nil
}

// MustRegister is Register for several, which panics.
func (r registrar) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister forgets nothing.
func (r registrar) Unregister(prometheus.Collector) bool { return false }
