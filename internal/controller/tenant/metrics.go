package tenant

import (
	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector shows when this manager saw each Tenant's agent renew its Lease last. One that never came is left out, and so is all
// where this manager doesn't lead.
func NewCollector(r *Reconciler) prometheus.Collector {
	return collector{r, prometheus.NewDesc("fairlead_tenant_agent_heard_timestamp_seconds", "When the manager last saw the Tenant's agent renew its Lease; a manager that has just begun to lead counts from then.", []string{"tenant"}, nil)}
}

type collector struct {
	r     *Reconciler
	heard *prometheus.Desc
}

// Describe sends what Collect does.
func (c collector) Describe(out chan<- *prometheus.Desc) { out <- c.heard }

// Collect sends one for each Tenant whose agent has come.
func (c collector) Collect(out chan<- prometheus.Metric) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for name, s := range c.r.agents {
		out <- prometheus.MustNewConstMetric(c.heard, prometheus.GaugeValue, float64(s.agent.seen.UnixMilli())/1000, name)
	}
}
