package proxy

import (
	"maps"

	"fairlead.dev/fairlead/internal/lb"
)

// probes keeps the distinct probes that a Program asks for: each pool's check
// of each member that may get connections. Tenants in which nothing changed are not looked at.
type probes struct {
	tenants map[lb.TenantID]tenantProbes
}

type tenantProbes struct {
	snapshot *lb.Snapshot
	probes   map[lb.Probe]struct{}
}

// update returns the probes of a Program by tenant, how many there are, each counted once, and whether they may differ from the
// ones before; if not, nothing else.
func (p *probes) update(program *lb.Program) (all map[lb.TenantID]map[lb.Probe]struct{}, distinct int, changed bool) {
	if p.tenants == nil {
		p.tenants, changed = map[lb.TenantID]tenantProbes{}, true
	}
	for id := range p.tenants {
		if program.Tenants[id] == nil {
			delete(p.tenants, id)
			changed = true
		}
	}
	for id, t := range program.Tenants {
		old, ok := p.tenants[id]
		if ok && old.snapshot == t {
			continue
		}
		now := tenantProbes{t, probesOf(t)}
		changed = changed || !ok || !maps.Equal(old.probes, now.probes)
		p.tenants[id] = now
	}
	if !changed {
		return nil, 0, false
	}
	all = make(map[lb.TenantID]map[lb.Probe]struct{}, len(p.tenants))
	seen := map[lb.Probe]struct{}{}
	for id, t := range p.tenants {
		all[id] = t.probes
		maps.Copy(seen, t.probes)
	}
	return all, len(seen), true
}

func probesOf(t *lb.Snapshot) map[lb.Probe]struct{} {
	out := map[lb.Probe]struct{}{}
	done := make(map[groupCheck]bool)
	for _, pool := range t.Pools {
		g := t.Groups[pool.Group]
		gc := groupCheck{pool.Group, pool.Check}
		if g == nil || done[gc] || pool.Check.Kind == lb.CheckNone || pool.Check.Kind == "" {
			continue
		}
		done[gc] = true
		for i := range g.Members {
			if m := &g.Members[i]; !m.Draining {
				out[lb.Probe{Check: pool.Check, Address: m.Address}] = struct{}{}
			}
		}
	}
	return out
}
