package proxy

import (
	"maps"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

// carried are findings of a Program that runs that say something of the next one's probes: where a pool's members are checked
// otherwise than before, those that were Unhealthy are taken to be so still, until the new check has found something itself. Else a
// dead one would get connections for as long. A probe that several pools come to share stands in for all of theirs, and is
// Unhealthy if all of them were: of many ports of a node that works, one is refused where a Service has no Pod. So are members that
// come to a pool in which another one is known to be Healthy: a host may have an address long before it serves.
func carried(runs, next *lb.Program) lb.Health {
	if runs == nil {
		return nil
	}
	unhealthy := map[lb.Probe]bool{}
	for id, t := range next.Tenants {
		was := runs.Tenants[id]
		if was == nil || was == t {
			continue
		}
		for name, pool := range t.Pools {
			before, g := was.Pools[name], t.Groups[pool.Group]
			if before == nil || !asks(pool.Check) || !asks(before.Check) || g == nil {
				continue
			}
			if before.Check == pool.Check {
				newcomers(was.Groups[before.Group], g, runs.Health[pool.Check], func(a netip.Addr) { unhealthy[lb.Probe{Check: pool.Check, Address: a}] = true })
				continue
			}
			for i := range g.Members {
				p := lb.Probe{Check: pool.Check, Address: g.Members[i].Address}
				all, several := unhealthy[p]
				unhealthy[p] = (all || !several) && runs.Health.Of(before.Check, p.Address) == lb.Unhealthy
			}
		}
	}
	maps.DeleteFunc(unhealthy, func(_ lb.Probe, is bool) bool { return !is })
	out := lb.Health{}
	for p := range unhealthy {
		setUnhealthy(out, p)
	}
	return out
}

// newcomers calls yield for the members of next that weren't in was and of which nothing is known, while one that was in both is Healthy.
func newcomers(was, next *lb.Group, found lb.Verdicts, yield func(netip.Addr)) {
	if was == nil || was == next {
		return
	}
	there := map[netip.Addr]bool{}
	for i := range was.Members {
		there[was.Members[i].Address] = true
	}
	stays := func(m lb.Member) bool { return !m.Draining && there[m.Address] && found[m.Address] == lb.Healthy }
	if !slices.ContainsFunc(next.Members, stays) {
		return
	}
	for i := range next.Members {
		if a := next.Members[i].Address; !there[a] && found[a] == lb.Unchecked {
			yield(a)
		}
	}
}

func asks(c lb.Check) bool { return c.Kind != lb.CheckNone && c.Kind != "" }

func setUnhealthy(h lb.Health, p lb.Probe) {
	if h[p.Check] == nil {
		h[p.Check] = lb.Verdicts{}
	}
	h[p.Check][p.Address] = lb.Unhealthy
}

// carry notes what is carried over from what runs to next.
func (l *loop) carry(next *lb.Program) {
	for check, of := range carried(l.applied, next) {
		for a := range of {
			if l.carried == nil {
				l.carried = lb.Health{}
			}
			setUnhealthy(l.carried, lb.Probe{Check: check, Address: a})
		}
	}
}

// uncarry forgets what nobody asks for any more, of probes by tenant.
func (l *loop) uncarry(wanted map[lb.TenantID]map[lb.Probe]struct{}) {
	for check, of := range l.carried {
		for a := range of {
			is := false
			for _, probes := range wanted {
				if _, is = probes[lb.Probe{Check: check, Address: a}]; is {
					break
				}
			}
			if !is {
				delete(of, a)
			}
		}
	}
}
