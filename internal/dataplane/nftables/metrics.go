package nftables

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// metrics are read from the kernel when they are asked for.
type metrics struct {
	d          *Dataplane
	registerer prometheus.Registerer

	accepted, perFrontend, turnedAway, entries, entriesMax, frontends, leaving *prometheus.Desc

	mu sync.Mutex
	// sweeping is the processor time that counting connections took.
	sweeping prometheus.Counter
	failures prometheus.Counter
	// seen and gone make one count of what the kernel begins anew with each element.
	seen map[lb.FrontendID]count64
}

// count64 is a count that goes on where the kernel's begins anew.
type count64 struct {
	kernel, before uint64
	// set and mark tell the element that counts from the one before.
	set  *set
	mark mark
}

func (c count64) total() uint64 { return c.before + c.kernel }

func newMetrics(d *Dataplane, r prometheus.Registerer) *metrics {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_"+name, help, labels, nil)
	}
	m := &metrics{
		d: d, registerer: r, seen: map[lb.FrontendID]count64{},
		accepted:    describe("proxy_accepted_total", "Clients' connections accepted.", "tenant", "loadbalancer"),
		perFrontend: describe("nftables_frontend_connections_total", "New connections by frontend, those for which there was no member among them.", "tenant", "loadbalancer", "address", "protocol", "port"),
		turnedAway:  describe("nftables_turned_away_total", "Packets turned away, by cause: nobody (no such port, or no member), denied (not among the sources), astray (of no connection that is known).", "because"),
		entries:     describe("nftables_conntrack_entries", "Connections that the kernel follows in this network namespace, ours and others."),
		entriesMax:  describe("nftables_conntrack_entries_max", "How many it can follow; new ones beyond are dropped."),
		frontends:   describe("proxy_listeners", "Sockets served."),
		leaving:     describe("nftables_leaving", "Members and frontends whose connections are counted until they have ended, by kind.", "kind"),
		sweeping:    prometheus.NewCounter(prometheus.CounterOpts{Name: "fairlead_nftables_counting_seconds_total", Help: "Processor time that counting connections took."}),
		failures:    prometheus.NewCounter(prometheus.CounterOpts{Name: "fairlead_nftables_read_failures_total", Help: "Counters that could not be read."}),
	}
	if r != nil {
		r.MustRegister(m)
	}
	return m
}

func (m *metrics) swept(took time.Duration) { m.sweeping.Add(took.Seconds()) }

func (m *metrics) close() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.accepted, m.perFrontend, m.turnedAway, m.entries, m.entriesMax, m.frontends, m.leaving} {
		out <- d
	}
	m.sweeping.Describe(out)
	m.failures.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.d.mu.Lock()
	served := make(map[lb.Socket]lb.FrontendID, len(m.d.sockets))
	for at, s := range m.d.sockets {
		if s.have != nil && s.want != nil {
			served[at] = s.want.id
		}
	}
	leavers, closers, ready := len(m.d.leaving.leavers), len(m.d.leaving.closers), m.d.begun && !m.d.missing && !m.d.closed
	m.d.mu.Unlock()

	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.frontends, float64(len(served)))
	gauge(m.leaving, float64(leavers), "member")
	gauge(m.leaving, float64(closers), "frontend")
	if v, err := m.d.ns.sysctls(conntrackCount, conntrackMax); err == nil {
		for name, desc := range map[string]*prometheus.Desc{conntrackCount: m.entries, conntrackMax: m.entriesMax} {
			if n, err := strconv.ParseUint(v[name], 10, 64); err == nil {
				gauge(desc, float64(n))
			}
		}
	}
	if ready {
		m.collectFrontends(out, served)
		m.collectTurnedAway(out)
	}
	m.sweeping.Collect(out)
	m.failures.Collect(out)
}

const (
	conntrackCount = "net.netfilter.nf_conntrack_count"
	conntrackMax   = "net.netfilter.nf_conntrack_max"
)

func (m *metrics) collectFrontends(out chan<- prometheus.Metric, served map[lb.Socket]lb.FrontendID) {
	seen := make(map[lb.FrontendID]count64, len(served))
	for _, set := range m.d.layout.frontends() {
		err := m.d.layout.elements(m.d.reads, set, func(e listed) {
			at, ok := socketOf(e.key)
			id, known := served[at]
			if !ok || !known {
				return
			}
			c := m.seen[id]
			if mark := markOf(e.value); e.packets < c.kernel || set != c.set || mark != c.mark { // Another element has taken its place.
				c.before += c.kernel
				c.set, c.mark = set, mark
			}
			c.kernel = e.packets
			seen[id] = c
		})
		if err == nil {
			continue
		}
		if !errors.Is(err, nl.ErrInterrupted) {
			m.failures.Inc()
		}
		for _, id := range served { // What was not read is as it was.
			if c, ok := m.seen[id]; ok && seen[id] == (count64{}) {
				seen[id] = c
			}
		}
	}
	m.seen = seen
	type balancer struct {
		tenant lb.TenantID
		name   string
	}
	sums := map[balancer]uint64{}
	for id, c := range seen {
		sums[balancer{id.Tenant, id.LoadBalancer}] += c.total()
		out <- prometheus.MustNewConstMetric(m.perFrontend, prometheus.CounterValue, float64(c.total()),
			string(id.Tenant), id.LoadBalancer, id.Address.String(), string(id.Protocol), strconv.Itoa(int(id.Port)))
	}
	for b, n := range sums {
		out <- prometheus.MustNewConstMetric(m.accepted, prometheus.CounterValue, float64(n), string(b.tenant), b.name)
	}
}

func (m *metrics) collectTurnedAway(out chan<- prometheus.Metric) {
	var a nl.Attrs
	a.String(unix.NFTA_OBJ_TABLE, m.d.layout.table)
	err := m.d.reads.Dump(nl.Tables<<8|unix.NFT_MSG_GETOBJ, nl.Head(unix.NFPROTO_INET, 0), a, nl.HeadLen, func(_ []byte, a nl.Attrs) error {
		var name string
		var n uint64
		for t, v := range a.All() {
			switch t {
			case unix.NFTA_OBJ_NAME:
				name = text(v)
			case unix.NFTA_OBJ_DATA:
				n = counted(v)
			}
		}
		out <- prometheus.MustNewConstMetric(m.turnedAway, prometheus.CounterValue, float64(n), name)
		return nil
	})
	if err != nil && !errors.Is(err, nl.ErrInterrupted) {
		m.failures.Inc()
	}
}
