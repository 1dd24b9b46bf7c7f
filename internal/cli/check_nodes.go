package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
)

// nodes says which proxies don't reach which tenants' targets, by their checks.
func (r *Report) nodes(f *Facts) {
	if f.hidden("proxies") || f.hidden("proxyreports") || f.hidden("leases") {
		r.add(Check{Area: areaNodes, Object: "targets", State: Skipped, Message: "what proxies find is not visible to you", Fix: "Ask with the hub operator's kubeconfig."})
		return
	}
	all := map[checkedBy]map[memberID]string{} // names of targets
	pools := map[string]int{}                  // how many, by namespace
	for _, g := range f.TargetGroups {
		for _, pool := range poolsOf(f.Objects, g) {
			by := checkedBy{g.Namespace, pool}
			for i := range g.Spec.Targets {
				if g.Drains(i) {
					continue
				}
				if all[by] == nil {
					all[by] = map[memberID]string{}
					pools[g.Namespace]++
				}
				all[by][idOf(g, i)] = g.Spec.Targets[i].Name
			}
		}
	}
	for _, by := range slices.SortedFunc(maps.Keys(all), checkedBy.compare) {
		object := "namespace " + by.namespace
		if t := f.tenantOf(by.namespace); t != nil {
			object = "Tenant " + t.Name
		}
		if pools[by.namespace] > 1 {
			object += ", pool " + by.pool
		}
		r.reach(f, object, by, all[by])
	}
}

// checkedBy are the proxies of a pool, which check targets of a namespace.
type checkedBy struct{ namespace, pool string }

func (b checkedBy) compare(o checkedBy) int {
	return cmp.Or(cmp.Compare(b.namespace, o.namespace), cmp.Compare(b.pool, o.pool))
}

// poolsOf are the pools whose proxies serve LoadBalancers that select g, sorted: they check its targets.
func poolsOf(o *Objects, g *v1alpha1.TargetGroup) []string {
	var out []string
	for _, l := range usersOf(o, g) {
		if _, class := o.classOf(l); class != nil && class.Spec.Proxy != nil && !slices.Contains(out, class.Spec.Proxy.Pool) {
			out = append(out, class.Spec.Proxy.Pool)
		}
	}
	slices.Sort(out)
	return out
}

// reach says which live proxies of a pool find which targets of one namespace unhealthy.
func (r *Report) reach(f *Facts, object string, by checkedBy, targets map[memberID]string) {
	proxies := slices.DeleteFunc(views(f.Objects, by.pool), func(v *proof.Proxy) bool { return !v.Live || v.Out || !v.Reported })
	if len(proxies) == 0 {
		return
	}
	sick := map[string][]string{} // by proxy
	for _, v := range proxies {
		for id, name := range targets {
			if findsSick(f.Objects, v, id) {
				sick[v.Name] = append(sick[v.Name], name)
			}
		}
		slices.Sort(sick[v.Name])
	}
	bad := slices.DeleteFunc(slices.Clone(proxies), func(v *proof.Proxy) bool { return len(sick[v.Name]) == 0 })
	if len(bad) == 0 {
		r.add(Check{Area: areaNodes, Object: object, State: OK, Message: fmt.Sprintf("%s, and no fault found with %s", count(len(proxies), "live proxy"), count(len(targets), "target"))})
		return
	}
	if len(bad) == len(proxies) && !slices.ContainsFunc(bad, func(v *proof.Proxy) bool { return !slices.Equal(sick[v.Name], sick[bad[0].Name]) }) {
		names := sick[bad[0].Name]
		c := Check{Area: areaNodes, Object: object, State: Warning, Message: fmt.Sprintf("every live proxy finds these of %s unhealthy: %s", count(len(targets), "target"), some(names))}
		c.Fix = "fairlead explain node " + names[0] + " --hub-namespace " + by.namespace
		if len(names) == len(targets) {
			c.State = Broken
			c.Fix = "If no proxy reaches any: is there a route from the proxies' hosts to the nodes, and does a firewall let node ports and health checks pass? " + c.Fix
		}
		r.add(c)
		return
	}
	for _, v := range bad {
		c := Check{Area: areaNodes, Object: object, State: Warning, Message: fmt.Sprintf("proxy %s finds these of %s unhealthy, and others don't: %s", v.Name, count(len(targets), "target"), some(sick[v.Name]))}
		if len(sick[v.Name]) == len(targets) {
			c.State = Broken
		}
		c.Fix = "Look at the way from the host of " + v.Name + " to them (routes, firewall): fairlead explain node " + sick[v.Name][0] + " --hub-namespace " + by.namespace
		r.add(c)
	}
}
