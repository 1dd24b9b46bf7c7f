package loadbalancer

import (
	"cmp"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/ipam"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of LoadBalancers. A nil one counts nothing.
type Metrics struct {
	mu     sync.Mutex
	states map[ipam.Ref]string

	loadBalancers *prometheus.GaugeVec
	failures      *prometheus.CounterVec
	grantSeconds  prometheus.Histogram
	readySeconds  prometheus.Histogram
}

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		states: map[ipam.Ref]string{},
		loadBalancers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fairlead_loadbalancers", Help: "LoadBalancers by the reason of their condition Ready.",
		}, []string{"reason"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fairlead_grant_failures_total", Help: "Decisions that granted no address, by reason.",
		}, []string{"reason"}),
		grantSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_grant_seconds", Help: "Time from a LoadBalancer's turn to its written grant.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		readySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fairlead_programmed_seconds", Help: "Time from a LoadBalancer's creation, to the second, until its status says Programmed.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
	}
	reg.MustRegister(m.loadBalancers, m.failures, m.grantSeconds, m.readySeconds)
	return m
}

func (m *Metrics) state(r ipam.Ref, reason string) {
	if m == nil {
		return
	}
	reason = cmp.Or(reason, "Unknown")
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.states[r]
	if known && old == reason {
		return
	}
	if known {
		m.loadBalancers.WithLabelValues(old).Dec()
	}
	m.states[r] = reason
	m.loadBalancers.WithLabelValues(reason).Inc()
}

func (m *Metrics) forget(r ipam.Ref) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, known := m.states[r]; known {
		m.loadBalancers.WithLabelValues(old).Dec()
		delete(m.states, r)
	}
}

func (m *Metrics) failed(reason string) {
	if m != nil {
		m.failures.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) granted(d time.Duration) {
	if m != nil {
		m.grantSeconds.Observe(d.Seconds())
	}
}

func (m *Metrics) programmed(d time.Duration) {
	if m != nil {
		m.readySeconds.Observe(d.Seconds())
	}
}
