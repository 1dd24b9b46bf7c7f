package resolve

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	lookups *prometheus.CounterVec
	names   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_proxy_lookups_total",
			Help: "Lookups of targets' names, by result (ok, failed).",
		}, []string{"result"}),
		names: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_proxy_names",
			Help: "Names of targets that are followed.",
		}),
	}
	if r != nil {
		r.MustRegister(m.lookups, m.names)
	}
	return m
}

func (m *metrics) count(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.lookups.WithLabelValues(result).Inc()
}
