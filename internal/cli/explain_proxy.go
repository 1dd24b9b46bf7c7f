package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExplainProxy says whether a proxy serves what the hub says, and what it can't do.
func ExplainProxy(o *Objects, name string) Explanation {
	e := Explanation{Kind: kindProxy, Subject: "Proxy " + name, Now: o.Now}
	i := slices.IndexFunc(o.Proxies, func(p *v1alpha1.Proxy) bool { return p.Name == name })
	if i < 0 {
		e.Rungs = append(e.Rungs, Rung{Name: "registered", State: Broken, Message: "the hub has no Proxy " + name,
			Fix: "Look for its name with kubectl get proxies. If it has never been there, the log of fairlead proxy on its host says why."})
		e.Rungs = append(e.Rungs, unreached("process", "hub", "applied", "ports", "members", "releases")...)
		e.conclude()
		return e
	}
	p := o.Proxies[i]
	v := view(o, p)
	process := processRung(o, p, v)
	e.Rungs = append(e.Rungs, registeredRung(o, p), process, hubRung(o, p))
	if process.State.bad() {
		e.Rungs = append(e.Rungs, unreached("applied", "ports", "members")...)
	} else {
		e.Rungs = append(e.Rungs, appliedRung(o, p, v), portsRung(v), membersSeenRung(o, v))
	}
	e.Rungs = append(e.Rungs, releasesRung(o, v))
	e.conclude()
	return e
}

func registeredRung(o *Objects, p *v1alpha1.Proxy) Rung {
	r := Rung{Name: "registered", State: OK, Message: "pool " + p.Spec.Pool}
	if p.Spec.Zone != "" {
		r.Message += ", zone " + p.Spec.Zone
	}
	if p.Status.Dataplane != "" {
		r.Message += ", data plane " + p.Status.Dataplane
	}
	if p.Status.Version != "" {
		r.Message += ", version " + p.Status.Version
	}
	used := slices.ContainsFunc(o.Classes, func(c *v1alpha1.LoadBalancerClass) bool {
		return c.Spec.Proxy != nil && c.Spec.Proxy.Pool == p.Spec.Pool
	})
	if !used && !o.hidden("loadbalancerclasses") {
		r.State, r.Message = Warning, r.Message+": no LoadBalancerClass names that pool, so it serves nothing"
	}
	return r
}

// processRung says whether a process speaks for the Proxy.
func processRung(o *Objects, p *v1alpha1.Proxy, v *proof.Proxy) Rung {
	state, text, since := proxyState(o, v)
	r := Rung{Name: "process", State: state, Message: text, Since: since}
	switch {
	case p.Spec.Fenced != nil:
		r.State, r.Reason = Broken, "Fenced"
	case p.Status.Phase == v1alpha1.ProxyLeft:
		r.State, r.Reason = Broken, "Left"
	case !v.Live:
		r.Fix = "See to fairlead proxy on its host, and to the way from there to the hub. If the host is gone for good, set spec.fenced of the Proxy: what it holds up then goes on."
	case state == Waiting:
		r.Reason = clusterv1.ReasonPending
		r.Fix = "Wait; the proxy's log says what for."
	case state == Broken:
		if c := condition(p.Status.Conditions, v1alpha1.ConditionReady, 0); c != nil {
			r.Reason, r.Message = c.Reason, c.Message
		}
		r.Fix = cmp.Or(Fix(r.Reason), "The proxy's log says why.")
	case frozen(p) != nil:
		r.State, r.Message, r.Since = OK, "live", nil
	}
	return r
}

// hubRung says whether the proxy's hub is this one.
func hubRung(o *Objects, p *v1alpha1.Proxy) Rung {
	r := Rung{Name: "hub", State: OK, Message: "it follows this hub"}
	if c := frozen(p); c != nil {
		r.State, r.Reason, r.Message, r.Since = Waiting, c.Reason, fmt.Sprintf("frozen in epoch %d, it serves on what it had: %s", p.Status.Epoch, c.Message), &c.LastTransitionTime
		return r
	}
	if o.HubUID != "" && p.Status.HubUID != "" && o.HubUID != p.Status.HubUID {
		r.State, r.Message = Warning, fmt.Sprintf("it has written last that its hub is %s, and this one is %s", p.Status.HubUID, o.HubUID)
	}
	return r
}

// appliedRung compares how far the proxy has come with what the hub has now.
func appliedRung(o *Objects, p *v1alpha1.Proxy, v *proof.Proxy) Rung {
	r := Rung{Name: "applied", State: OK, Message: fmt.Sprintf("%s, up to version %d of LoadBalancers, %d of TargetGroups, %d of Addresses",
		count(int(p.Status.Frontends), "frontend"), v.Through.LoadBalancers, v.Through.TargetGroups, v.Through.Addresses)}
	newer := 0
	behind := func(o metav1.Object, through proof.Version) {
		if version, err := proof.ParseVersion(o.GetResourceVersion()); err == nil && version > through {
			newer++
		}
	}
	for _, l := range o.LoadBalancers {
		behind(l, v.Through.LoadBalancers)
	}
	for _, g := range o.TargetGroups {
		behind(g, v.Through.TargetGroups)
	}
	for _, a := range o.Addresses {
		behind(a, v.Through.Addresses)
	}
	if newer > 0 {
		r.State = Warning
		r.Message += fmt.Sprintf("; %s newer, which it has yet to say that it applied (at rest it says so every 10 s)", count(newer, "object"))
	}
	if len(p.Status.Held) > 0 {
		r.State = Warning
		r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: fmt.Sprintf("it can't write its report to %s: %s; what it says proves nothing there", count(len(p.Status.Held), "namespace"), some(p.Status.Held))})
	}
	return r
}

// portsRung lists what the proxy refuses, or serves without something that was asked for.
func portsRung(v *proof.Proxy) Rung {
	r := Rung{Name: "ports", State: OK}
	refused, without := 0, 0
	for _, namespace := range sortedNamespaces(v.Reports) {
		report := v.Reports[namespace]
		for i := range report.Refused {
			f := &report.Refused[i]
			refused++
			r.Reason = cmp.Or(r.Reason, f.Problem.Reason)
			r.Evidence = append(r.Evidence, Evidence{State: Broken, Text: fmt.Sprintf("refuses %s of %s/%s: %s: %s", portName(f), namespace, f.LoadBalancer, f.Problem.Reason, f.Problem.Message)})
		}
		for i := range report.ServedWithout {
			f := &report.ServedWithout[i]
			without++
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: fmt.Sprintf("serves %s of %s/%s without %s: %s: %s", portName(f), namespace, f.LoadBalancer, cmp.Or(f.Problem.Field, "a part"), f.Problem.Reason, f.Problem.Message)})
		}
		if report.Truncated {
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: "its report in " + namespace + " had no room for all: it proves nothing there"})
		}
	}
	r.Message = "all that are meant for it are served"
	switch {
	case refused > 0:
		r.State, r.Message = Broken, fmt.Sprintf("%d refused, %d served without a part", refused, without)
	case len(r.Evidence) > 0:
		r.State, r.Message = Warning, fmt.Sprintf("none refused, %d served without a part", without)
	}
	r.Evidence = fewEvidence(r.Evidence)
	return r
}

// membersSeenRung tells members that this proxy alone finds unhealthy from those that all do.
func membersSeenRung(o *Objects, v *proof.Proxy) Rung {
	r := Rung{Name: "members", State: OK, Message: "it finds none unhealthy"}
	others := slices.DeleteFunc(views(o, v.Pool), func(x *proof.Proxy) bool { return x.Name == v.Name || !x.Live || x.Out || !x.Reported })
	all, alone := map[memberID]bool{}, map[memberID]bool{}
	for _, namespace := range sortedNamespaces(v.Reports) {
		report := v.Reports[namespace]
		for i := range report.Members {
			m := &report.Members[i]
			id := memberID{namespace, m.GroupUID, m.TargetUID}
			if !sick(o, namespace, m) || all[id] {
				continue
			}
			all[id] = true
			text := strings.TrimSpace(fmt.Sprintf("%s/%s %s: %s %s", namespace, m.Target, m.Address, m.Check, m.Message))
			if len(others) > 0 && !slices.ContainsFunc(others, func(x *proof.Proxy) bool { return findsSick(o, x, id) }) {
				alone[id] = true
				text += "; no other proxy finds it so: look at the way from this proxy's host to it"
			}
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: text})
		}
	}
	if len(all) > 0 {
		r.State, r.Reason, r.Message = Warning, v1alpha1.ReasonMembersUnhealthy, fmt.Sprintf("it finds %d unhealthy, %d of them alone", len(all), len(alone))
	}
	r.Evidence = fewEvidence(r.Evidence)
	return r
}

// memberID names a target in reports.
type memberID struct{ namespace, group, target string }

func idOf(g *v1alpha1.TargetGroup, i int) memberID {
	return memberID{g.Namespace, string(g.UID), g.Spec.Targets[i].UID}
}

// findsSick: the proxy reports the member unhealthy, by a check that says something of its TargetGroup.
func findsSick(o *Objects, v *proof.Proxy, id memberID) bool {
	report := v.Reports[id.namespace]
	return report != nil && slices.ContainsFunc(report.Members, func(m v1alpha1.ReportedMember) bool {
		return m.GroupUID == id.group && m.TargetUID == id.target && sick(o, id.namespace, &m)
	})
}

// sick: what is reported says that the target itself is unhealthy, and not that one LoadBalancer's own check fails there, as that
// of a Service does whose Pods are elsewhere.
func sick(o *Objects, namespace string, m *v1alpha1.ReportedMember) bool {
	if m.State != v1alpha1.ReportedUnhealthy {
		return false
	}
	i := slices.IndexFunc(o.TargetGroups, func(g *v1alpha1.TargetGroup) bool { return g.Namespace == namespace && string(g.UID) == m.GroupUID })
	return i < 0 || build.OfTargetGroup(o.TargetGroups[i].Spec.HealthCheck, m.Check)
}

// releasesRung lists the addresses whose release waits for this proxy.
func releasesRung(o *Objects, v *proof.Proxy) Rung {
	r := Rung{Name: "releases", State: OK, Message: "no address waits for it"}
	if o.hidden("addresses") {
		return Rung{Name: "releases", State: Skipped, Message: "Addresses are not visible to you"}
	}
	for _, a := range o.Addresses {
		if a.Spec.Phase == v1alpha1.AddressReleasing && a.Spec.ProxyPool == v.Pool && !v.Out && !gone(v, a) {
			r.Evidence = append(r.Evidence, Evidence{State: Warning, Text: a.Spec.Address + " of " + holderNames(a), Since: a.Spec.ReleasingSince})
		}
	}
	if n := len(r.Evidence); n > 0 {
		r.State, r.Reason, r.Message = Warning, clusterv1.ReasonReleaseBlocked, fmt.Sprintf("%d addresses can't go to anybody else before it says that it serves them no more", n)
		if n == 1 {
			r.Message = "1 address can't go to anybody else before it says that it serves it no more"
		}
	}
	r.Evidence = fewEvidence(r.Evidence)
	return r
}

func sortedNamespaces(reports map[string]*v1alpha1.ProxyReport) []string {
	var out []string
	for n := range reports {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// shownEvidence is how many findings of one kind are listed.
const shownEvidence = 20

// fewEvidence keeps the worst, and counts the rest.
func fewEvidence(all []Evidence) []Evidence {
	slices.SortStableFunc(all, func(a, b Evidence) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	if len(all) <= shownEvidence {
		return all
	}
	return append(all[:shownEvidence:shownEvidence], Evidence{State: Warning, Text: fmt.Sprintf("%d more: kubectl get proxyreports -A has all", len(all)-shownEvidence)})
}

// portName is the port that a proxy speaks of.
func portName(f *v1alpha1.RefusedFrontend) string {
	if f.Port == 0 {
		return "all ports"
	}
	return fmt.Sprintf("%s/%d", cmp.Or(f.Protocol, clusterv1.ProtocolTCP), f.Port)
}
