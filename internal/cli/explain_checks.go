package cli

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// said is what a proxy reports of a target.
type said struct {
	proxy *proof.Proxy
	entry *v1alpha1.ReportedMember
}

// saidOf is what proxies that are live report of target i, by the proxies' names.
func saidOf(o *Objects, g *v1alpha1.TargetGroup, i int) []said {
	var out []said
	for _, v := range views(o, "") {
		report := v.Reports[g.Namespace]
		if !v.Live || v.Out || report == nil {
			continue
		}
		for j := range report.Members {
			if e := &report.Members[j]; e.GroupUID == string(g.UID) && e.TargetUID == g.Spec.Targets[i].UID {
				out = append(out, said{v, e})
			}
		}
	}
	return out
}

// memberStatus is what the manager says of target i; nil: it is plainly active.
func memberStatus(g *v1alpha1.TargetGroup, i int) *v1alpha1.MemberStatus {
	for j := range g.Status.Targets {
		if g.Status.Targets[j].UID == g.Spec.Targets[i].UID {
			return &g.Status.Targets[j]
		}
	}
	return nil
}

// checksRung says which of the proxies that check the target find it unhealthy, by which check and since when.
func checksRung(o *Objects, g *v1alpha1.TargetGroup, i int) Rung {
	r := Rung{Name: "checks", State: OK}
	m := memberStatus(g, i)
	var since *metav1.Time
	if m != nil {
		since = m.Since
	}
	if o.MayNot("proxies", "leases", "proxyreports", "loadbalancerclasses") {
		r.Message = "no proxy finds it unhealthy, by its TargetGroup's status"
		switch {
		case m == nil || m.State != stateUnhealthy:
		case mayPass(g, m):
			r.State, r.Reason, r.Since = Warning, v1alpha1.ReasonMembersUnhealthy, since
			r.Message = "it fails at the port of one Service at least: what the proxies' checks find at the others' ports is not visible to you"
			if m.Message != "" {
				r.Evidence = []Evidence{{State: Warning, Text: m.Message}}
			}
		default:
			r.State, r.Reason, r.Message, r.Since = Broken, v1alpha1.ReasonMembersUnhealthy, m.Message, since
		}
		return r
	}
	pools := poolsOf(o, g)
	if len(pools) == 0 {
		r.State, r.Message = Skipped, "no proxy serves a LoadBalancer that selects it, so none checks it"
		return r
	}
	unwell := map[string]bool{}
	var others []string
	for _, s := range saidOf(o, g, i) {
		switch {
		case !slices.Contains(pools, s.proxy.Pool):
		case sick(o, g.Namespace, s.entry):
			unwell[s.proxy.Name] = true
			text := strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", s.proxy.Name, s.entry.Check, s.entry.Address, s.entry.Message))
			r.Evidence = append(r.Evidence, Evidence{State: Broken, Text: text, Since: since})
		case s.entry.State == v1alpha1.ReportedUnhealthy && !slices.Contains(others, s.entry.Check):
			others = append(others, s.entry.Check)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		r.Evidence = append(r.Evidence, Evidence{State: OK, Text: "checks of single LoadBalancers fail, as of Services without a Pod there: " + some(others)})
	}
	live := 0
	for _, v := range views(o, "") {
		if v.Live && !v.Out && v.Reported && slices.Contains(pools, v.Pool) {
			live++
		}
	}
	at := failsOnlyAt(o, g, i)
	switch {
	case live == 0:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoProxies, "no proxy is live that could check it"
	case len(unwell) == 0:
		r.Message = fmt.Sprintf("none of %s finds it unhealthy", count(live, "live proxy"))
	case len(at) > 0:
		r.State, r.Reason = Warning, v1alpha1.ReasonMembersUnhealthy
		r.Message = fmt.Sprintf("it fails at the port of %s, and passes at the others'", some(at))
	case len(unwell) < live:
		r.State, r.Reason = Warning, v1alpha1.ReasonMembersUnhealthy
		r.Message = fmt.Sprintf("%d of %d proxies find it unhealthy and the others do not: look at the way from those to it", len(unwell), live)
	default:
		r.State, r.Reason = Broken, v1alpha1.ReasonMembersUnhealthy
		r.Message = fmt.Sprintf("all live proxies (%d) find it unhealthy", live)
		r.Fix = "Ask it from a proxy's host, at the port that the check names: a refusal means that nothing listens there (is kube-proxy running on the Node?), no answer means a firewall between, or a Node that is down."
	}
	return r
}

// failsOnlyAt names the LoadBalancers whose ports target i of a group that is checked by port fails, if it passes at those of others;
// else none: the group's targets have a check that is theirs alone.
func failsOnlyAt(o *Objects, g *v1alpha1.TargetGroup, i int) []string {
	if g.CheckedByPort() == "" {
		return nil
	}
	var fails []string
	passes := false
	for _, l := range usersOf(o, g) {
		s := snapshotOf(o, l)
		if s == nil || l.Spec.HealthCheck != nil {
			continue
		}
		for _, m := range judgeMembers(o, l, s) {
			switch {
			case m.id != idOf(g, i):
			case m.state == Broken:
				fails = append(fails, userName(l))
			default:
				passes = true
			}
		}
	}
	if !passes {
		return nil
	}
	return fails
}
