package targetgroup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// States of a member.
const (
	waiting   = "waiting"
	adding    = "adding"
	unhealthy = "unhealthy"
	draining  = "draining"
	drained   = "drained"
)

// facts are all that a TargetGroup's status is made from.
type facts struct {
	group   *v1alpha1.TargetGroup
	tenant  *v1alpha1.Tenant
	version proof.Version
	// since is at which version each target was first seen as it stands now, by its UID; nil: the group was made from neither Machines nor Nodes.
	since map[string]proof.Version
	// apart is the LoadBalancer that alone says what becomes of the targets; "": proxies say.
	apart string
	// admission is what the Tenant's quota leaves out of its namespace.
	admission build.Admission
	// proxies of the pools that send to the group, sorted by name.
	proxies []*proof.Proxy
	now     metav1.Time
}

// describe returns the status that the facts make.
func describe(f facts) v1alpha1.TargetGroupStatus {
	s := *f.group.Status.DeepCopy()
	old := map[string]v1alpha1.MemberStatus{}
	for _, m := range s.Targets {
		old[m.UID] = m
	}
	s.Targets = nil
	var sick []string
	for i := range f.group.Spec.Targets {
		m := member(f, i)
		if m.State == "" {
			continue
		}
		since := f.now
		if was, ok := old[m.UID]; ok && was.State == m.State && was.Since != nil {
			since = *was.Since
		}
		m.Since = &since
		s.Targets = append(s.Targets, m)
		if m.State == unhealthy {
			sick = append(sick, m.Name)
		}
	}
	slices.SortFunc(s.Targets, func(a, b v1alpha1.MemberStatus) int { return cmp.Compare(a.Name, b.Name) })
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: f.group.Generation})
	}
	active := len(f.group.Spec.Targets) - len(s.Targets)
	if problems := build.ValidateTargetGroup(f.group, f.tenant, f.admission); len(problems) > 0 {
		// Nobody can say that of targets that are left out.
		active = min(active, build.Sendable(f.group, f.tenant, f.admission))
		var lines []string
		for i, p := range problems {
			if i == 5 {
				lines = append(lines, fmt.Sprintf("%d more", len(problems)-i))
				break
			}
			lines = append(lines, p.Field+": "+p.Message)
		}
		set(v1alpha1.ConditionAccepted, metav1.ConditionFalse, problems[0].Reason, cut(strings.Join(lines, "; ")))
	} else {
		set(v1alpha1.ConditionAccepted, metav1.ConditionTrue, clusterv1.ReasonAccepted, "")
	}
	s.WithinQuota, s.BeyondQuota = nil, int32(f.admission.Beyond(f.group))
	if f.tenant != nil {
		s.WithinQuota = f.admission.Within(f.group)
	}
	s.Members = fmt.Sprintf("%d/%d", active, len(f.group.Spec.Targets))
	byPort := f.group.CheckedByPort()
	switch {
	case len(sick) > 0:
		slices.Sort(sick)
		message := "These fail their check"
		if byPort != "" {
			message += " at the port of one Service at least"
		}
		set(v1alpha1.ConditionHealthy, metav1.ConditionFalse, v1alpha1.ReasonMembersUnhealthy, cut(message+": "+strings.Join(sick, ", ")+"."))
	case byPort != "":
		set(v1alpha1.ConditionHealthy, metav1.ConditionTrue, v1alpha1.ReasonCheckedByPort, cut("Checked otherwise than by kube-proxy's health: "+byPort+"."))
	default:
		set(v1alpha1.ConditionHealthy, metav1.ConditionTrue, clusterv1.ReasonAsExpected, "")
	}
	return s
}

// member says what is not plain about target i; an empty State: nothing.
func member(f facts, i int) v1alpha1.MemberStatus {
	t := &f.group.Spec.Targets[i]
	m := v1alpha1.MemberStatus{Name: t.Name, UID: t.UID}
	address := t.ServedAddress()
	if f.apart != "" {
		m.State, m.Message = told(f, i)
		return m
	}
	if f.group.Drains(i) {
		removal := proof.Removal{Namespace: f.group.Namespace, GroupUID: string(f.group.UID), TargetUID: t.UID, Address: address, Version: f.version}
		if v, ok := f.since[t.UID]; ok {
			removal.Version = v
		}
		m.State = drained
		if against := proof.JudgeRemoved(removal, f.proxies); len(against) > 0 {
			m.State, m.Message = draining, cut("Waiting for proxies: "+proof.Names(against)+".")
		}
		for _, p := range f.proxies {
			for _, e := range entries(p, f.group, t) {
				if e.State == v1alpha1.ReportedDraining {
					m.OpenConnections += e.OpenConnections
				}
			}
		}
		return m
	}
	if f.admission.LeavesOut(f.group, i) {
		m.State, m.Message = waiting, "The target is beyond the Tenant's quota."
		return m
	}
	if address == "" {
		m.State, m.Message = waiting, "The target has no address yet."
		return m
	}
	if f.since != nil {
		m.State, m.Message = machine(f, t, address)
		return m
	}
	live := 0
	said := map[v1alpha1.ReportedState][]string{}
	for _, p := range f.proxies {
		if !p.Live || p.Out {
			continue
		}
		live++
		worst, why := v1alpha1.ReportedState(""), ""
		for _, e := range entries(p, f.group, t) {
			if !build.OfTargetGroup(f.group.Spec.HealthCheck, e.Check) {
				continue
			}
			if e.State == v1alpha1.ReportedUnhealthy || e.State == v1alpha1.ReportedUnchecked && worst == "" {
				worst, why = e.State, strings.TrimSuffix(strings.TrimSpace(e.Check+" "+e.Message), ".")
			}
			if worst == v1alpha1.ReportedUnhealthy {
				break
			}
		}
		if worst != "" {
			said[worst] = append(said[worst], strings.TrimSpace(p.Name+": "+why))
		}
	}
	switch {
	case len(said[v1alpha1.ReportedUnhealthy]) > 0:
		m.State = unhealthy
		m.Message = cut(fmt.Sprintf("Found so by %d of %d proxies: %s.", len(said[v1alpha1.ReportedUnhealthy]), live, strings.Join(said[v1alpha1.ReportedUnhealthy], "; ")))
	case len(said[v1alpha1.ReportedUnchecked]) > 0:
		m.State, m.Message = adding, cut("Not checked yet: "+strings.Join(said[v1alpha1.ReportedUnchecked], "; ")+".")
	}
	return m
}

// entries are what a proxy reports of a target.
func entries(p *proof.Proxy, g *v1alpha1.TargetGroup, t *v1alpha1.Target) []v1alpha1.ReportedMember {
	r := p.Reports[g.Namespace]
	if r == nil {
		return nil
	}
	var out []v1alpha1.ReportedMember
	for _, e := range r.Members {
		if e.GroupUID == string(g.UID) && e.TargetUID == t.UID {
			out = append(out, e)
		}
	}
	return out
}

func cut(s string) string {
	if len(s) <= 1000 {
		return s
	}
	return strings.ToValidUTF8(s[:1000], "") + "…"
}
