package builtin

import (
	"sync"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics keeps series for as long as what they speak of is served, or has open connections.
type metrics struct {
	connects        *prometheus.CounterVec
	accepted        *prometheus.CounterVec
	openConnections *prometheus.GaugeVec
	retries         *prometheus.CounterVec
	refusedClients  *prometheus.CounterVec
	acceptErrors    prometheus.Counter
	flows           *prometheus.GaugeVec
	dropped         *prometheus.CounterVec
	evicted         prometheus.Counter
	listeners       prometheus.Gauge

	mu            sync.Mutex
	targets       map[[2]string]*targetMetrics
	loadBalancers map[[2]string]*loadBalancerMetrics
	// tenants counts the loadBalancers of each.
	tenants map[string]int
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_proxy_" + name, Help: help}, labels)
	}
	m := &metrics{
		connects:        counter("connects_total", "Connects to targets, by result (ok, refused, timeout, unreachable, local); reset counts those of ok that the target reset at once, before it said anything.", "tenant", "target", "result"),
		accepted:        counter("accepted_total", "Clients' connections accepted.", "tenant", "loadbalancer"),
		retries:         counter("retries_total", "Connects to a second or further target for one client.", "tenant"),
		refusedClients:  counter("refused_clients_total", "Clients turned away, by cause (no_members, not_connected, not_allowed).", "tenant", "because"),
		openConnections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fairlead_proxy_open_connections", Help: "Connections relayed now."}, []string{"tenant"}),
		flows:           prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fairlead_proxy_udp_flows", Help: "UDP flows now."}, []string{"tenant"}),
		dropped:         counter("udp_dropped_total", "Datagrams dropped, by cause (no_room, not_allowed, not_sent); those without a target are in refused_clients_total.", "tenant", "because"),
		evicted:         prometheus.NewCounter(prometheus.CounterOpts{Name: "fairlead_proxy_udp_evicted_total", Help: "UDP flows ended before their time to make room for new ones."}),
		acceptErrors:    prometheus.NewCounter(prometheus.CounterOpts{Name: "fairlead_proxy_accept_errors_total", Help: "Accepts that failed, most likely for want of files."}),
		listeners:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_proxy_listeners", Help: "Listening sockets."}),
		targets:         map[[2]string]*targetMetrics{},
		loadBalancers:   map[[2]string]*loadBalancerMetrics{},
		tenants:         map[string]int{},
	}
	if r != nil {
		r.MustRegister(m.connects, m.accepted, m.retries, m.refusedClients, m.openConnections, m.acceptErrors, m.listeners, m.flows, m.dropped, m.evicted)
	}
	return m
}

// refuse counts a client that is turned away.
func (m *metrics) refuse(tenant lb.TenantID, because string) {
	m.refusedClients.WithLabelValues(string(tenant), because).Inc()
}

// drop counts a datagram that is dropped.
func (m *metrics) drop(tenant lb.TenantID, because string) {
	m.dropped.WithLabelValues(string(tenant), because).Inc()
}

// targetMetrics are the series of one target name, shared by its addresses.
type targetMetrics struct {
	of       *metrics
	key      [2]string
	refs     int
	connects map[string]prometheus.Counter
}

func (m *metrics) target(tenant lb.TenantID, name string) *targetMetrics {
	key := [2]string{string(tenant), name}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[key]
	if t == nil {
		t = &targetMetrics{of: m, key: key, connects: make(map[string]prometheus.Counter, len(results))}
		for _, result := range results {
			t.connects[result] = m.connects.WithLabelValues(key[0], key[1], result)
		}
		m.targets[key] = t
	}
	t.refs++
	return t
}

func (t *targetMetrics) release() {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.refs--; t.refs > 0 {
		return
	}
	delete(t.of.targets, t.key)
	for _, result := range results {
		t.of.connects.DeleteLabelValues(t.key[0], t.key[1], result)
	}
}

// loadBalancerMetrics are the series of one LoadBalancer, shared by its frontends.
type loadBalancerMetrics struct {
	of       *metrics
	key      [2]string
	refs     int
	accepted prometheus.Counter
	// open and flows are its tenant's.
	open, flows prometheus.Gauge
}

func (m *metrics) loadBalancer(tenant lb.TenantID, name string) *loadBalancerMetrics {
	key := [2]string{string(tenant), name}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.loadBalancers[key]
	if l == nil {
		l = &loadBalancerMetrics{of: m, key: key, accepted: m.accepted.WithLabelValues(key[0], key[1]),
			open: m.openConnections.WithLabelValues(key[0]), flows: m.flows.WithLabelValues(key[0])}
		m.loadBalancers[key] = l
		m.tenants[key[0]]++
	}
	l.refs++
	return l
}

// release is called when its frontends have no connection left, so that the
// tenant's own series can go with its last LoadBalancer.
func (l *loadBalancerMetrics) release() {
	m := l.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.refs--; l.refs > 0 {
		return
	}
	delete(m.loadBalancers, l.key)
	m.accepted.DeleteLabelValues(l.key[0], l.key[1])
	if m.tenants[l.key[0]]--; m.tenants[l.key[0]] > 0 {
		return
	}
	delete(m.tenants, l.key[0])
	of := prometheus.Labels{"tenant": l.key[0]}
	m.openConnections.Delete(of)
	m.retries.Delete(of)
	m.refusedClients.DeletePartialMatch(of)
	m.flows.Delete(of)
	m.dropped.DeletePartialMatch(of)
}
