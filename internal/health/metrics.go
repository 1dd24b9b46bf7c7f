package health

import (
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	checks  *prometheus.CounterVec
	probes  prometheus.Gauge
	waiting *prometheus.GaugeVec
	late    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_checks_total",
			Help: "Health checks made, by kind and result (ok, failed).",
		}, []string{"kind", "result"}),
		probes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_proxy_probes",
			Help: "Probes (address, port, kind) that are checked.",
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairlead_proxy_checks_waiting",
			Help: "Health checks that are due and wait for others to end, most likely the tenant's own.",
		}, []string{"tenant"}),
		late: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_checks_late_total",
			Help: "Health checks that waited for others to end, for longer than their interval.",
		}, []string{"tenant"}),
	}
	if r != nil {
		r.MustRegister(m.checks, m.probes, m.waiting, m.late)
	}
	return m
}

func (m *metrics) count(kind lb.CheckKind, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.checks.WithLabelValues(string(kind), result).Inc()
}
