package health

import (
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	checks *prometheus.CounterVec
	probes prometheus.Gauge
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
	}
	if r != nil {
		r.MustRegister(m.checks, m.probes)
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
