package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one agent.
type metrics struct {
	registry      *prometheus.Registry
	publish       prometheus.Histogram
	propagation   *prometheus.HistogramVec
	writes        *prometheus.CounterVec
	eventsDropped prometheus.Counter
	targets       prometheus.Gauge
	leaseRenewed  prometheus.Gauge
}

func newMetrics(tenant string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		publish: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_agent_publish_seconds", Help: "From a Service first seen without an address to its address written to its status.",
			Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300},
		}),
		propagation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fairlead_agent_propagation_seconds", Help: "From a Service created or changed, as this agent saw it, until it saw that the proxies serve it so.",
			ConstLabels: prometheus.Labels{"tenant": tenant},
			Buckets:     []float64{.02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300},
		}, []string{"event"}),
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
			ConstLabels: prometheus.Labels{"tenant": tenant},
		}),
	}
	m.registry.MustRegister(m.publish, m.propagation, m.writes, m.eventsDropped, m.targets, m.leaseRenewed)
	return m
}

// propagated counts how long a user's doing took to be served.
func (m *metrics) propagated(event string, took time.Duration) {
	m.propagation.WithLabelValues(event).Observe(took.Seconds())
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
