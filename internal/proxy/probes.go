package proxy

import "fairlead.dev/fairlead/internal/lb"

// probes keeps the distinct probes that a Program asks for: each pool's check
// of each member that may get connections. Tenants in which nothing changed are not looked at.
type probes struct {
	tenants map[lb.TenantID]tenantProbes
}

type tenantProbes struct {
	snapshot *lb.Snapshot
	probes   map[lb.Probe]struct{}
}

// update returns all probes of a Program, and whether they may differ from the ones before.
func (p *probes) update(program *lb.Program) (all []lb.Probe, changed bool) {
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
		changed = changed || !ok || !equalSets(old.probes, now.probes)
		p.tenants[id] = now
	}
	if !changed {
		return nil, false
	}
	seen := map[lb.Probe]struct{}{}
	for _, t := range p.tenants {
		for probe := range t.probes {
			if _, ok := seen[probe]; !ok {
				seen[probe] = struct{}{}
				all = append(all, probe)
			}
		}
	}
	return all, true
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

func equalSets(a, b map[lb.Probe]struct{}) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			return false
		}
	}
	return true
}
