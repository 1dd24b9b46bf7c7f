package simulation

import (
	"slices"

	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
)

// probes are the checks that a Program asks for, each once, in the order of its frontends.
func probes(program *lb.Program) []lb.Probe {
	var out []lb.Probe
	seen := map[lb.Probe]bool{}
	for _, l := range program.Listeners {
		for _, f := range l.Frontends {
			pool, g := poolOf(program, f)
			if pool == nil || g == nil || pool.Check.Kind == lb.CheckNone || pool.Check.Kind == "" {
				continue
			}
			for _, m := range g.Members {
				if p := (lb.Probe{Check: pool.Check, Address: m.Address}); !m.Draining && !seen[p] {
					seen[p] = true
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// poolOf is that of a frontend, and its group; nil: there is none.
func poolOf(program *lb.Program, f lb.FrontendID) (*lb.Pool, *lb.Group) {
	t := program.Tenants[f.Tenant]
	if t == nil {
		return nil, nil
	}
	for _, x := range t.Frontends {
		if pool := t.Pools[x.Pool]; x.ID == f && pool != nil {
			return pool, t.Groups[pool.Group]
		}
	}
	return nil, nil
}

// checked is a Program with what the host's checks have found, and what is carried over to checks that have found nothing yet.
func (h *host) checked(next *lb.Program) *lb.Program {
	if !h.w.Checks {
		return next
	}
	found := map[lb.Probe]lb.Verdict{}
	carried := proxy.Carried(h.runs, next)
	out := *next
	out.Health = lb.Health{}
	for _, p := range probes(next) {
		v, known := h.found[p]
		if !known {
			v = carried[p.Check][p.Address]
		}
		if v == lb.Unchecked {
			continue
		}
		found[p] = v
		if out.Health[p.Check] == nil {
			out.Health[p.Check] = lb.Verdicts{}
		}
		out.Health[p.Check][p.Address] = v
	}
	h.found = found
	return &out
}

// check is one check's result. False: it is the one before.
func (h *host) check() bool {
	all := probes(h.plane.program)
	if !h.up || len(all) == 0 {
		return false
	}
	return h.probe(all[h.w.n(len(all))])
}

// checkAll is a result of each.
func (h *host) checkAll() {
	if !h.w.Checks || !h.up {
		return
	}
	for _, p := range probes(h.plane.program) {
		h.probe(p)
	}
}

func (h *host) probe(p lb.Probe) bool {
	v := lb.Healthy
	if h.w.down[p.Address.String()] || h.blind[p.Address] {
		v = lb.Unhealthy
	}
	if h.found[p] == v {
		return false
	}
	h.found[p], h.dirty = v, true
	h.w.trace("%s finds %s %s", h.name, p.Address, v)
	return true
}

// unhealthy is what a new process is told that checks found last.
func (h *host) unhealthy() []lb.Probe {
	var out []lb.Probe
	for p, v := range h.found {
		if v == lb.Unhealthy {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, lb.Probe.Compare)
	return out
}
