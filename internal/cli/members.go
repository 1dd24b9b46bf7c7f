package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shownMembers is how many members that nothing is amiss with are listed by name.
const shownMembers = 5

// mayJudge: the reader sees what snapshotOf and judgeMembers need.
func (o *Objects) mayJudge() bool {
	return !o.MayNot("loadbalancerclasses", "addresses", "tenants", "proxies", "leases", "proxyreports")
}

// membersRung says which members get l's connections. It builds what a proxy builds.
func membersRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "members", State: Skipped}
	if byService(o, l) {
		return readyRung(o, l)
	}
	if byOthers(o, l) {
		r.Message = "whoever manages its load balancer says what becomes of them"
		return r
	}
	if byProvider(o, l) {
		r.Message = "what becomes of each is in status.targets of " + providerObject(l)
		return r
	}
	if !o.mayJudge() {
		return groupsRung(o, l)
	}
	s := snapshotOf(o, l)
	if s == nil || len(s.Frontends) == 0 {
		return r
	}
	if len(groupMembers(s))+len(s.Absent) == 0 {
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoTargets, "no TargetGroup that the selector matches has a target"
		for _, p := range s.Problems {
			if p.Object.Kind == lb.KindTargetGroup || p.Reason == clusterv1.ReasonNoTargets {
				r.Reason = p.Reason
				r.Evidence = append(r.Evidence, Evidence{State: Broken, Text: problemText(p)})
			}
		}
		return r
	}
	judged := judgeMembers(o, l, s)
	usable := 0
	for _, m := range judged {
		if m.state == OK {
			usable++
		}
	}
	r.State, r.Message = OK, fmt.Sprintf("%d of %d get connections, checked by %s", usable, len(judged), strings.Join(checks(s), ", "))
	switch {
	case usable == 0 && anyDraining(judged):
		r.State, r.Reason = Broken, v1alpha1.ReasonMembersUnhealthy
		r.Message = "no member takes connections: each is unhealthy or draining"
	case usable == 0 && failsOpen(s):
		r.State, r.Reason = Broken, v1alpha1.ReasonMembersUnhealthy
		r.Message = "no member passes its check; all get connections all the same (failOpen)"
	case usable == 0:
		r.State, r.Reason = Broken, v1alpha1.ReasonMembersUnhealthy
		r.Message = "no member passes its check"
	case usable < len(judged):
		r.State = Warning
		if slices.ContainsFunc(judged, func(m judgedMember) bool { return m.state == Broken }) {
			r.Reason = v1alpha1.ReasonMembersUnhealthy
		}
	}
	r.Evidence = append(memberEvidence(judged), byPortEvidence(o, l)...)
	for _, p := range s.Problems {
		if p.Object.Kind == lb.KindTargetGroup && p.Effect == lb.Refused {
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: problemText(p)})
		}
	}
	return r
}

// groupsRung says what TargetGroups' own status says, for who may not see what proxies build from.
func groupsRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "members", State: OK}
	selector, err := build.Selector(l)
	if err != nil {
		return Rung{Name: "members", State: Skipped, Message: err.Error()}
	}
	plain, all, unknown := 0, 0, 0
	for _, g := range o.TargetGroups {
		if g.Namespace != l.Namespace || selector.Empty() || !selector.Matches(labels.Set(g.Labels)) {
			continue
		}
		all += len(g.Spec.Targets)
		plain += len(g.Spec.Targets) - len(g.Status.Targets)
		for _, t := range g.Status.Targets {
			if mayPass(g, &t) {
				unknown++
			}
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: strings.TrimSpace(fmt.Sprintf("%s %s: %s", t.Name, t.State, t.Message)), Since: t.Since})
		}
	}
	r.Message = fmt.Sprintf("%d of %d are active, by their TargetGroups' status", plain, all)
	r.Evidence = append(r.Evidence, byPortEvidence(o, l)...)
	switch {
	case all == 0:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoTargets, "no TargetGroup that the selector matches has a target"
	case plain == 0 && unknown == 0:
		r.State, r.Reason = Broken, v1alpha1.ReasonMembersUnhealthy
	case plain == 0:
		r.State, r.Message = Warning, fmt.Sprintf("%d of %d fail at the port of one Service at least, which may be another's: what the proxies' checks find is not visible to you", unknown, all)
	case plain < all:
		r.State = Warning
	}
	return r
}

// mayPass: a member of g that the status says is unhealthy may pass the check of a given LoadBalancer, for the status tells of all that
// send there, and each has a port of its own.
func mayPass(g *v1alpha1.TargetGroup, m *v1alpha1.MemberStatus) bool {
	return g.CheckedByPort() != "" && m.State == stateUnhealthy
}

// byPortEvidence is why l's members are Nodes that are checked otherwise than by kube-proxy's health, where its own check doesn't say how.
func byPortEvidence(o *Objects, l *clusterv1.LoadBalancer) []Evidence {
	selector, err := build.Selector(l)
	if err != nil || selector.Empty() || l.Spec.HealthCheck != nil {
		return nil
	}
	for _, g := range o.TargetGroups {
		if by := g.CheckedByPort(); by != "" && g.Namespace == l.Namespace && selector.Matches(labels.Set(g.Labels)) {
			return []Evidence{{State: OK, Text: v1alpha1.ReasonCheckedByPort + ": " + by}}
		}
	}
	return nil
}

func problemText(p lb.Problem) string {
	return fmt.Sprintf("%s %s, %s: %s: %s", p.Object.Kind, p.Object.Name, cmp.Or(p.Field, "spec"), p.Reason, p.Message)
}

// snapshotOf is what a proxy of l's class serves of l's namespace, had it nothing but l.
func snapshotOf(o *Objects, l *clusterv1.LoadBalancer) *lb.Snapshot {
	_, class := o.classOf(l)
	if class == nil || class.Spec.Proxy == nil {
		return nil
	}
	own := l
	if own.Spec.ClassName == "" {
		own = l.DeepCopy()
		own.Spec.ClassName = class.Name
	}
	objects := build.Objects{LoadBalancers: []*clusterv1.LoadBalancer{own}, Classes: o.Classes, Addresses: o.Addresses, Tenants: o.Tenants}
	for _, g := range o.TargetGroups {
		if g.Namespace == l.Namespace {
			objects.TargetGroups = append(objects.TargetGroups, g)
		}
	}
	program := build.Whole(objects, build.Options{ProxyPool: class.Spec.Proxy.Pool, Addresses: o.hostsOf(class.Spec.Proxy.Pool)})
	return program.Tenants[lb.TenantID(l.Namespace)]
}

func groupMembers(s *lb.Snapshot) []lb.Member {
	var out []lb.Member
	seen := map[lb.GroupID]bool{}
	for _, f := range s.Frontends {
		if p := s.Pools[f.Pool]; p != nil && !seen[p.Group] {
			seen[p.Group] = true
			if g := s.Groups[p.Group]; g != nil {
				out = append(out, g.Members...)
			}
		}
	}
	return out
}

func checks(s *lb.Snapshot) []string {
	var out []string
	for _, f := range s.Frontends {
		if p := s.Pools[f.Pool]; p != nil && !slices.Contains(out, p.Check.String()) {
			out = append(out, p.Check.String())
		}
	}
	return out
}

func failsOpen(s *lb.Snapshot) bool {
	for _, p := range s.Pools {
		if !p.FailOpen {
			return false
		}
	}
	return true
}

type judgedMember struct {
	id      memberID
	name    string
	address string
	state   State
	text    string
	since   *metav1.Time
}

func anyDraining(ms []judgedMember) bool {
	return slices.ContainsFunc(ms, func(m judgedMember) bool { return strings.HasPrefix(m.text, "draining") })
}

// judgeMembers joins the group with what the live proxies report of it, by the checks that l uses.
func judgeMembers(o *Objects, l *clusterv1.LoadBalancer, s *lb.Snapshot) []judgedMember {
	_, class := o.classOf(l)
	proxies := views(o, class.Spec.Proxy.Pool)
	mine := checks(s)
	var out []judgedMember
	for _, m := range groupMembers(s) {
		j := judgedMember{id: memberID{l.Namespace, m.GroupUID, m.UID}, name: m.Name, address: m.Address.String(), state: OK, text: "active", since: memberSince(o, l.Namespace, &m)}
		if m.Draining {
			j.state, j.text = Waiting, "draining"
		}
		var said []string
		for _, v := range proxies {
			report := v.Reports[l.Namespace]
			if !v.Live || v.Out || report == nil {
				continue
			}
			for _, e := range report.Members {
				if e.GroupUID != m.GroupUID || e.TargetUID != m.UID || e.Address != m.Address.String() {
					continue
				}
				switch {
				case m.Draining && e.State == v1alpha1.ReportedDraining:
					said = append(said, fmt.Sprintf("%s has %s", v.Name, count(int(e.OpenConnections), "open connection")))
				case m.Draining && e.State == v1alpha1.ReportedGone:
					said = append(said, v.Name+" has let go of it")
				case !m.Draining && e.State == v1alpha1.ReportedUnhealthy && slices.Contains(mine, e.Check):
					j.state, j.text = Broken, "unhealthy"
					said = append(said, strings.TrimSpace(fmt.Sprintf("%s %s %s", v.Name, e.Check, e.Message)))
				}
			}
		}
		if len(said) > 0 {
			j.text += ": " + strings.Join(said, "; ")
		}
		if j.state == OK {
			j.since = nil
		}
		out = append(out, j)
	}
	for _, a := range s.Absent {
		out = append(out, judgeNamed(proxies, l.Namespace, a, mine))
	}
	return out
}

// judgeNamed judges a target that is known by a name: what that stands for, each proxy finds out for itself.
func judgeNamed(proxies []*proof.Proxy, namespace string, a lb.Absent, checks []string) judgedMember {
	j := judgedMember{id: memberID{namespace, a.GroupUID, a.UID}, name: a.Target, address: a.Name, state: OK, text: "active at the addresses that each proxy looks up"}
	var said []string
	for _, v := range proxies {
		report := v.Reports[namespace]
		if !v.Live || v.Out || report == nil {
			continue
		}
		for _, e := range report.Members {
			if e.GroupUID == a.GroupUID && e.TargetUID == a.UID && e.State == v1alpha1.ReportedUnhealthy && (e.Address == a.Name || slices.Contains(checks, e.Check)) {
				said = append(said, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", v.Name, e.Check, e.Address, e.Message)))
			}
		}
	}
	if len(said) > 0 {
		j.state, j.text = Broken, "unhealthy: "+strings.Join(said, "; ")
	}
	return j
}

// memberSince is since when a member isn't plainly active, by its TargetGroup's status.
func memberSince(o *Objects, namespace string, m *lb.Member) *metav1.Time {
	for _, g := range o.TargetGroups {
		if g.Namespace != namespace || string(g.UID) != m.GroupUID {
			continue
		}
		for i := range g.Status.Targets {
			if g.Status.Targets[i].UID == m.UID {
				return g.Status.Targets[i].Since
			}
		}
	}
	return nil
}

// memberEvidence lists what is amiss first, and few of those with which nothing is.
func memberEvidence(ms []judgedMember) []Evidence {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b judgedMember) int {
		return cmp.Or(cmp.Compare(rank(a.state), rank(b.state)), cmp.Compare(a.name, b.name))
	})
	var out []Evidence
	plain := 0
	for _, m := range ms {
		if m.state == OK {
			if plain++; plain > shownMembers {
				continue
			}
		}
		out = append(out, Evidence{State: m.state, Text: fmt.Sprintf("%s %s %s", m.name, m.address, m.text), Since: m.since})
	}
	if plain > shownMembers {
		out = append(out, Evidence{State: OK, Text: fmt.Sprintf("%d more are active", plain-shownMembers)})
	}
	return out
}
