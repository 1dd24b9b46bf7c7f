package proxy

import (
	"strconv"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the loop and the reporter.
type Metrics struct {
	events    *prometheus.CounterVec
	applies   *prometheus.CounterVec
	applyTime prometheus.Histogram
	buildTime prometheus.Histogram
	lagTime   prometheus.Histogram
	size      *prometheus.GaugeVec
	versions  *prometheus.GaugeVec
	writes    *prometheus.CounterVec
	fileTime  prometheus.Histogram
	fileFails prometheus.Counter
}

// NewMetrics registers the metrics with r, once a process.
func NewMetrics(r prometheus.Registerer) *Metrics {
	short := prometheus.ExponentialBuckets(0.00005, 2, 18) // 50 µs to 6.5 s
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: short})
	}
	m := &Metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_events_total",
			Help: "Events of the hub by resource and kind: set, same (nothing that is built from differs), delete, list, bookmark.",
		}, []string{"resource", "kind"}),
		applies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_applies_total",
			Help: "Programs handed to the data plane, by result: none, hot, reload, error.",
		}, []string{"result"}),
		applyTime: histogram("fairlead_proxy_apply_duration_seconds", "Time that the data plane took for a Program."),
		buildTime: histogram("fairlead_proxy_build_duration_seconds", "Time to build a Program from what changed."),
		lagTime:   histogram("fairlead_proxy_event_to_applied_seconds", "Time from an event's arrival to the return of the Apply that has it."),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairlead_proxy_program_size",
			Help: "What the applied Program holds, by kind: tenants, listeners, frontends, pools, groups, members, probes.",
		}, []string{"kind"}),
		versions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairlead_proxy_through_resource_version",
			Help: "Resource version that the proxy's status says it is through, by resource.",
		}, []string{"resource"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_writes_total",
			Help: "Writes to the hub by object (status, report, lease) and result (written, deleted, conflict, failed).",
		}, []string{"object", "result"}),
		fileTime: histogram("fairlead_proxy_file_duration_seconds", "Time that a write of the last-good file took."),
		fileFails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_proxy_file_failures_total",
			Help: "Writes of the last-good file that failed; nothing is reported meanwhile.",
		}),
	}
	r.MustRegister(m.events, m.applies, m.applyTime, m.buildTime, m.lagTime, m.size, m.versions, m.writes, m.fileTime, m.fileFails)
	return m
}

func (m *Metrics) event(r Resource, kind string) { m.events.WithLabelValues(r.String(), kind).Inc() }
func (m *Metrics) built(d time.Duration)         { m.buildTime.Observe(d.Seconds()) }
func (m *Metrics) lag(d time.Duration)           { m.lagTime.Observe(d.Seconds()) }
func (m *Metrics) probes(n int)                  { m.size.WithLabelValues("probes").Set(float64(n)) }
func (m *Metrics) write(result, object string)   { m.writes.WithLabelValues(object, result).Inc() }

func (m *Metrics) filed(err error, d time.Duration) {
	if err != nil {
		m.fileFails.Inc()
		return
	}
	m.fileTime.Observe(d.Seconds())
}

func (m *Metrics) applied(o dataplane.Outcome, err error, d time.Duration) {
	result := map[dataplane.Result]string{dataplane.None: "none", dataplane.Hot: "hot", dataplane.Reload: "reload"}[o.How]
	if err != nil {
		result = "error"
	}
	m.applies.WithLabelValues(result).Inc()
	m.applyTime.Observe(d.Seconds())
}

func (m *Metrics) through(v Versions) {
	for r := range resources {
		if n, err := strconv.ParseUint(v[r], 10, 64); err == nil {
			m.versions.WithLabelValues(r.String()).Set(float64(n))
		}
	}
}

func (m *Metrics) program(p *lb.Program) {
	var frontends, pools, groups, members int
	for _, t := range p.Tenants {
		frontends += len(t.Frontends)
		pools += len(t.Pools)
		groups += len(t.Groups)
		for _, g := range t.Groups {
			members += len(g.Members)
		}
	}
	for kind, n := range map[string]int{
		"tenants": len(p.Tenants), "listeners": len(p.Listeners), "frontends": frontends, "pools": pools, "groups": groups, "members": members,
	} {
		m.size.WithLabelValues(kind).Set(float64(n))
	}
}
