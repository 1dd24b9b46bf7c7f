package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// tenantHealth is what was found out about one tenant's members.
type tenantHealth struct {
	snapshot *lb.Snapshot
	checks   *namespaceChecks
	entries  []v1alpha1.ReportedMember
	// uses are the checks of its members; unchecked has since when a probe is without a result.
	uses      map[lb.Check]struct{}
	unchecked map[lb.Probe]time.Time
}

// health names members that fail their checks, or were not checked for a while. Tenants whom nothing concerns that
// happened are not looked at: there are many, and one change must not cost more for it.
func (x *exceptions) health(s *served, now time.Time, changed bool, in func(string) *content) (again time.Time) {
	for id := range x.tenants {
		if s.Program.Tenants[id] == nil {
			delete(x.tenants, id)
		}
	}
	turned := turnedChecks(x.verdicts, s.Program.Health)
	x.verdicts = s.Program.Health
	for id, t := range s.Program.Tenants {
		h := x.tenants[id]
		if h == nil || h.snapshot != t || h.checks != s.Checks[string(id)] || len(h.unchecked) > 0 || changed && h.explains() || h.usesAny(turned) {
			h = x.tenant(t, s.Checks[string(id)], s.Program.Health, now, h)
			x.tenants[id] = h
		}
		if len(h.entries) > 0 {
			c := in(string(id))
			c.Members = append(c.Members, h.entries...)
		}
		for _, since := range h.unchecked {
			if due := since.Add(quiet); due.After(now) && (again.IsZero() || due.Before(again)) {
				again = due
			}
		}
	}
	return again
}

// turnedChecks are those of which a verdict differs.
func turnedChecks(old, next lb.Health) map[lb.Check]struct{} {
	out := map[lb.Check]struct{}{}
	for _, c := range lb.Diff(&lb.Program{Health: old}, &lb.Program{Health: next}).Health {
		out[c.Probe.Check] = struct{}{}
	}
	return out
}

// explains says that a message may be another although no verdict is: of a check that fails, or of a name that can't be looked up.
func (h *tenantHealth) explains() bool { return len(h.entries)+len(h.snapshot.Absent) > 0 }

func (h *tenantHealth) usesAny(checks map[lb.Check]struct{}) bool {
	few, many := h.uses, checks
	if len(checks) < len(h.uses) {
		few, many = checks, h.uses
	}
	for c := range few {
		if _, ok := many[c]; ok {
			return true
		}
	}
	return false
}

type groupCheck struct {
	group lb.GroupID
	check lb.Check
}

// tenant looks at one; before is what was found out last, nil: nothing.
func (x *exceptions) tenant(t *lb.Snapshot, own *namespaceChecks, verdicts lb.Health, now time.Time, before *tenantHealth) *tenantHealth {
	h := &tenantHealth{snapshot: t, checks: own, uses: map[lb.Check]struct{}{}, unchecked: map[lb.Probe]time.Time{}}
	var out []v1alpha1.ReportedMember
	done := make(map[groupCheck]bool)
	for _, p := range t.Pools {
		gc := groupCheck{p.Group, p.Check}
		g := t.Groups[p.Group]
		if g == nil || done[gc] {
			continue
		}
		done[gc] = true
		h.uses[p.Check] = struct{}{}
		for i := range g.Members {
			m := &g.Members[i]
			if m.Draining {
				continue
			}
			v := verdicts.Of(p.Check, m.Address)
			if v == lb.Healthy {
				continue
			}
			probe := lb.Probe{Check: p.Check, Address: m.Address}
			e := v1alpha1.ReportedMember{
				TargetGroup: m.TargetGroup, GroupUID: m.GroupUID, Target: m.Name, TargetUID: m.UID,
				Address: m.Address.String(), Check: p.Check.String(), State: v1alpha1.ReportedUnhealthy,
			}
			if v == lb.Unchecked {
				since := now
				if before != nil {
					if s, ok := before.unchecked[probe]; ok {
						since = s
					}
				}
				h.unchecked[probe] = since
				if now.Sub(since) < quiet {
					continue
				}
				e.State = v1alpha1.ReportedUnchecked
			} else if x.explain != nil {
				e.Message = cut(x.explain(probe), 1024)
			}
			out = append(out, e)
		}
	}
	out = append(out, x.absent(t)...)
	slices.SortFunc(out, func(a, b v1alpha1.ReportedMember) int {
		return cmp.Or(cmp.Compare(a.TargetUID, b.TargetUID), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Check, b.Check), cmp.Compare(a.GroupUID, b.GroupUID))
	})
	out = slices.Compact(out)
	if len(out) > maxEntries/2 {
		out = fold(out, own)
	}
	h.entries = out
	return h
}

// absent names targets that stand for no address. What was not looked up yet is no exception.
func (x *exceptions) absent(t *lb.Snapshot) []v1alpha1.ReportedMember {
	var out []v1alpha1.ReportedMember
	for _, a := range t.Absent {
		message := ""
		switch {
		case a.Used > 0:
			continue // Its LoadBalancers say it.
		case a.Outside > 0:
			message = "none of its addresses lies in the Tenant's target ranges: the hub's operator adds their range to spec.targetCIDRs"
		case x.names == nil:
			message = "this proxy looks up no names"
		default:
			err := x.names.Err(a.Name)
			if err == nil {
				continue
			}
			message = err.Error()
		}
		out = append(out, v1alpha1.ReportedMember{
			TargetGroup: a.TargetGroup, GroupUID: a.GroupUID, Target: a.Target, TargetUID: a.UID,
			Address: a.Name, Check: "DNS", State: v1alpha1.ReportedUnhealthy, Message: cut(message, 1024),
		})
	}
	return out
}

// fold makes one entry of all checks that a target fails, so that a dead node
// behind a thousand ports is one line. Those of its TargetGroup are apart from
// those of LoadBalancers that have their own: whether the target is well is told by them alone.
func fold(ms []v1alpha1.ReportedMember, own *namespaceChecks) []v1alpha1.ReportedMember {
	type target struct {
		group, uid, address string
		state               v1alpha1.ReportedState
		own                 bool
	}
	var out []v1alpha1.ReportedMember
	at := map[target]int{}
	more := map[target]int{}
	for _, m := range ms {
		k := target{m.GroupUID, m.TargetUID, m.Address, m.State, own.ofTargetGroup(m.TargetGroup, m.Check)}
		if _, ok := at[k]; ok {
			more[k]++
			continue
		}
		at[k] = len(out)
		out = append(out, m)
	}
	for k, n := range more {
		m := &out[at[k]]
		m.Message = cut(strings.TrimPrefix(fmt.Sprintf("%s; and %d more checks", m.Message, n), "; "), 1024)
	}
	return out
}
