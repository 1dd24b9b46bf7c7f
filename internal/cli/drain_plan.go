package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/lb"
)

// PlanDrain says what would move if the targets were drained.
func PlanDrain(o *Objects, t Targets) (Drain, error) {
	places, err := t.find(o)
	if err != nil {
		return Drain{}, err
	}
	places = o.everywhere(places)
	d := Drain{Subject: t.String(), State: DrainPlanned, LoadBalancers: []DrainLine{}, standing: o.standing(places)}
	for _, p := range places {
		d.madeFrom = cmp.Or(d.madeFrom, generatedFrom(p.group))
	}
	d.look(places)
	leaving := map[memberID]bool{}
	for _, p := range places {
		id := idOf(p.group, p.index)
		leaving[id] = true
		d.marks = append(d.marks, mark{id, p.group.Spec.Targets[p.index].Name})
	}
	seen := map[string]bool{}
	for _, p := range places {
		for _, l := range usersOf(o, p.group) {
			if key := l.Namespace + "/" + l.Name; !seen[key] {
				seen[key] = true
				d.LoadBalancers = append(d.LoadBalancers, drainLine(o, l, leaving))
			}
		}
	}
	slices.SortFunc(d.LoadBalancers, func(a, b DrainLine) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return d, nil
}

// drainLine counts the members of l that get new connections, and those that are left.
func drainLine(o *Objects, l *clusterv1.LoadBalancer, leaving map[memberID]bool) DrainLine {
	line := DrainLine{Namespace: l.Namespace, Name: l.Name}
	if origin, ok := service.Origin(l); ok {
		line.Origin = origin.String()
	}
	passes, doubt := passing(o, l)
	line.doubt = doubt
	all, moves := 0, 0
	for _, g := range o.TargetGroups {
		if g.Namespace != l.Namespace || !selects(l, g) {
			continue
		}
		for i := range g.Spec.Targets {
			if !mayTakeNew(o, g, i) || !passes(g, i) {
				continue
			}
			t := &g.Spec.Targets[i]
			weight := 1
			if t.Weight != nil {
				weight = int(*t.Weight)
			}
			line.Before++
			all += weight
			if leaving[idOf(g, i)] {
				moves += weight
			} else {
				line.After++
			}
		}
	}
	if all > 0 {
		line.MovesPercent = (100*moves + all/2) / all
	}
	if s := snapshotOf(o, l); s != nil {
		for _, p := range s.Pools {
			line.OpenFor = p.DrainTimeout.String()
			break // one LoadBalancer, one drain timeout
		}
	}
	return line
}

// mayTakeNew: target i gets new connections, if it passes its check.
func mayTakeNew(o *Objects, g *v1alpha1.TargetGroup, i int) bool {
	if m := memberStatus(g, i); g.Drains(i) || m != nil && m.State == stateWaiting {
		return false
	}
	if w := g.Spec.Targets[i].Weight; w != nil && *w == 0 {
		return false
	}
	_, out := problemOfTarget(g, i, o.tenantOf(g.Namespace), o.admission(g.Namespace))
	return !out || o.hidden("tenants")
}

// passing returns what tells whether target i of a group that l selects passes the check by which proxies send it connections of
// l: by what they report, for where l has a check of its own, a TargetGroup's status says nothing of that one; or by what whoever
// else sends says. doubt is why it can't be told; empty: it can.
func passing(o *Objects, l *clusterv1.LoadBalancer) (passes func(g *v1alpha1.TargetGroup, i int) bool, doubt string) {
	if byService(o, l) {
		return func(g *v1alpha1.TargetGroup, i int) bool { return ready(&g.Spec.Targets[i]) }, ""
	}
	if byOthers(o, l) {
		return func(g *v1alpha1.TargetGroup, i int) bool {
			return slices.Contains(l.Status.ActiveTargets, g.Spec.Targets[i].Name)
		}, ""
	}
	if byProvider(o, l) {
		return func(*v1alpha1.TargetGroup, int) bool { return true }, "its provider alone knows which targets pass its check: see status.targets of " + providerObject(l)
	}
	own := l.Spec.HealthCheck != nil && l.Spec.HealthCheck.Type != clusterv1.HealthCheckNone
	if own {
		doubt = unheard(o, l)
	}
	var s *lb.Snapshot
	if o.mayJudge() {
		s = snapshotOf(o, l)
	}
	if s == nil || len(s.Frontends) == 0 {
		for _, g := range o.TargetGroups {
			if doubt == "" && g.Namespace == l.Namespace && selects(l, g) && slices.ContainsFunc(g.Status.Targets, func(m v1alpha1.MemberStatus) bool { return mayPass(g, &m) }) {
				doubt = unheard(o, l)
			}
		}
		return func(g *v1alpha1.TargetGroup, i int) bool {
			m := memberStatus(g, i)
			return m == nil || m.State != stateUnhealthy || mayPass(g, m)
		}, doubt
	}
	good := map[memberID]bool{}
	for _, m := range judgeMembers(o, l, s) {
		good[m.id] = good[m.id] || m.state == OK
	}
	return func(g *v1alpha1.TargetGroup, i int) bool { return good[idOf(g, i)] }, doubt
}

// unheard is why nobody can tell what l's own check finds; empty: a proxy tells all.
func unheard(o *Objects, l *clusterv1.LoadBalancer) string {
	_, class := o.classOf(l)
	switch {
	case !o.mayJudge():
		return "what the proxies' checks find is not visible to you"
	case class == nil || class.Spec.Proxy == nil:
		return "" // nothing is checked
	}
	for _, v := range views(o, class.Spec.Proxy.Pool) {
		report := v.Reports[l.Namespace]
		if v.Live && !v.Out && v.Reported && !slices.Contains(v.Held, l.Namespace) && (report == nil || !report.Truncated) {
			return ""
		}
	}
	return "no live proxy of pool " + class.Spec.Proxy.Pool + " reports all that its checks find"
}

// Refuse turns the plan down if it would leave a LoadBalancer that is served without any member, if nobody can tell, or if nothing
// would be drained for now.
func (d *Drain) Refuse() bool {
	var dark, unknown []string
	doubt := ""
	for _, l := range d.LoadBalancers {
		name := "LoadBalancer " + l.Namespace + "/" + l.Name
		if l.Origin != "" {
			name = "Service " + l.Origin
		}
		switch {
		case l.Before == l.After:
		case l.After == 0:
			dark = append(dark, name)
		case l.doubt != "":
			unknown, doubt = append(unknown, name), l.doubt
		}
	}
	var why []string
	if len(unknown) > 0 {
		why = append(why, fmt.Sprintf("it can't be told whether another member passes the check of %s: %s", some(unknown), doubt))
		d.Fix = "Ask with the hub operator's kubeconfig, while a proxy is live; or say --force, and clients may be refused meanwhile."
	}
	if len(dark) > 0 {
		why = slices.Insert(why, 0, "no member would be left that gets new connections of "+some(dark))
		d.Fix = "Add targets or mend those that are unhealthy first; or say --force, and clients are refused meanwhile."
	}
	if len(d.standing) > 0 {
		why = append(why, "the manager leaves alone what stands still, and has nothing drain: "+some(d.standing))
		if len(dark) == 0 {
			d.Fix = "End that first; or say --force, and they are drained once it ends."
		}
	}
	if len(why) == 0 {
		return false
	}
	d.State, d.Message = DrainRefused, strings.Join(why, "; ")
	return true
}
