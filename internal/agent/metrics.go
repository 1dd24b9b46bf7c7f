package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one agent.
type metrics struct {
	registry      *prometheus.Registry
	publish       prometheus.Histogram
	writes        *prometheus.CounterVec
	eventsDropped prometheus.Counter
	targets       prometheus.Gauge
	leaseRenewed  prometheus.Gauge
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		publish: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_agent_publish_seconds", Help: "From a Service first seen without an address to its address written to its status.",
			Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300},
		}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_agent_writes_total", Help: "Writes to the tenant's and the hub's API server, by what was written.",
		}, []string{"cluster", "what", "result"}),
		eventsDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fairlead_agent_events_dropped_total", Help: "Events that were not written; the condition of the Service says the same.",
		}),
		targets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_agent_targets", Help: "Nodes that are targets.",
		}),
		leaseRenewed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fairlead_agent_lease_renewed_timestamp_seconds", Help: "When the agent last renewed its Lease in the hub.",
		}),
	}
	m.registry.MustRegister(m.publish, m.writes, m.eventsDropped, m.targets, m.leaseRenewed)
	return m
}

// Labels of writes.
const (
	hubCluster    = "hub"
	tenantCluster = "tenant"
)

func (m *metrics) wrote(cluster, what string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.writes.WithLabelValues(cluster, what, result).Inc()
}
