package member

import (
	"context"
	"time"

	rules "fairlead.dev/fairlead/internal/member"
	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector counts what Machines and Nodes say of LoadBalancers, as the cache has them, whenever it is asked. Where they aren't
// followed, as by a manager that doesn't lead, there are none.
func NewCollector(r *Reconciler) prometheus.Collector {
	return collector{
		r:       r,
		members: prometheus.NewDesc("fairlead_machines", "Machines that are targets of LoadBalancers, by state, once for each LoadBalancer.", []string{"state"}, nil),
		nodes:   prometheus.NewDesc("fairlead_nodes", "Nodes of the hub that are targets of LoadBalancers, by state, once for each LoadBalancer.", []string{"state"}, nil),
		held:    prometheus.NewDesc("fairlead_held_machines", "Machines whose deletion waits for a LoadBalancer.", nil, nil),
		oldest:  prometheus.NewDesc("fairlead_held_machine_oldest_seconds", "How long the deletion of a Machine has waited for a LoadBalancer, of the one that has waited longest; 0: none does.", nil, nil),
	}
}

type collector struct {
	r                            *Reconciler
	members, nodes, held, oldest *prometheus.Desc
}

// Describe sends what Collect does.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.members, c.nodes, c.held, c.oldest} {
		out <- d
	}
}

// Collect counts.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for kind, of := range map[rules.Kind]*prometheus.Desc{rules.Machines: c.members, rules.Nodes: c.nodes} {
		var objects []object
		var err error
		if !c.r.watched(kind).Empty() {
			objects, err = c.r.list(context.Background(), c.r.Cache, kind, "")
		}
		if err != nil {
			out <- prometheus.NewInvalidMetric(of, err)
			continue
		}
		states, held, oldest := tally(kind, objects, c.r.Now())
		for _, s := range rules.States() {
			out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, float64(states[s]), string(s))
		}
		if kind == rules.Machines { // nobody holds a Node
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held))
			out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, oldest.Seconds())
		}
	}
}

// tally counts objects by what they say of LoadBalancers, and those that are being deleted and still have a hook of one.
func tally(kind rules.Kind, objects []object, now time.Time) (states map[rules.State]int, held int, oldest time.Duration) {
	states = map[rules.State]int{}
	for i := range objects {
		a := objects[i].Annotations
		for _, key := range kind.Named(a) {
			states[kind.StateIn(a, key)]++
		}
		if since := objects[i].GetDeletionTimestamp(); since != nil && rules.HookedByAny(a) {
			held++
			oldest = max(oldest, now.Sub(since.Time))
		}
	}
	return states, held, oldest
}
