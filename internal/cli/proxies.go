package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/proof"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	managerLease = v1alpha1.ManagerLease
	silence      = proof.Silence
)

// views are the proxies of a pool, sorted by name, as the manager would see them.
func views(o *Objects, pool string) []*proof.Proxy {
	var out []*proof.Proxy
	for _, p := range o.Proxies {
		if pool == "" || p.Spec.Pool == pool {
			out = append(out, view(o, p))
		}
	}
	slices.SortFunc(out, func(a, b *proof.Proxy) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func view(o *Objects, p *v1alpha1.Proxy) *proof.Proxy {
	lease := o.lease(v1alpha1.SystemNamespace, p.Name)
	ago, ok := o.renewed(lease)
	v := &proof.Proxy{
		Name: p.Name, Pool: p.Spec.Pool, Boot: p.Status.Boot,
		Live: ok && ago < silence, Renewed: true,
		Out:      p.Spec.Fenced != nil || p.Status.Phase == v1alpha1.ProxyLeft,
		Reported: p.Status.Boot != "" && p.Status.Phase == v1alpha1.ProxyServing,
		// Reports are read after Proxies, so that they are as new.
		Settled: true,
		Held:    p.Status.Held, Through: proof.ParseThrough(p.Status.Through), Reports: map[string]*v1alpha1.ProxyReport{},
	}
	for _, text := range p.Spec.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			v.Addresses = append(v.Addresses, a.Unmap())
		}
	}
	if lease != nil {
		switch lease.Annotations[v1alpha1.AnnotationBoot] {
		case "":
		case p.Status.Boot:
			var t v1alpha1.Through
			if err := json.Unmarshal([]byte(lease.Annotations[v1alpha1.AnnotationThrough]), &t); err == nil {
				v.Through = v.Through.Max(proof.ParseThrough(t))
			}
		default:
			v.Reported = false
		}
	}
	for _, r := range o.Reports {
		if r.Name == p.Name && r.Boot == p.Status.Boot {
			v.Reports[r.Namespace] = r
		}
	}
	return v
}

// proxyState says in words how a proxy is; Broken: it can't serve.
func proxyState(o *Objects, v *proof.Proxy) (State, string, *metav1.Time) {
	i := slices.IndexFunc(o.Proxies, func(p *v1alpha1.Proxy) bool { return p.Name == v.Name })
	p, lease := o.Proxies[i], o.lease(v1alpha1.SystemNamespace, v.Name)
	ago, renewed := o.renewed(lease)
	switch {
	case p.Spec.Fenced != nil:
		return Skipped, fmt.Sprintf("fenced by %s: %s", p.Spec.Fenced.By, p.Spec.Fenced.Reason), nil
	case p.Status.Phase == v1alpha1.ProxyLeft:
		return Skipped, "left", nil
	case !renewed:
		return Broken, "silent: it has never renewed a Lease", nil
	case !v.Live:
		return Broken, fmt.Sprintf("silent: it renewed its Lease %s ago", short(ago)), &metav1.Time{Time: lease.Spec.RenewTime.Time}
	case frozen(p) != nil:
		c := frozen(p)
		return Warning, fmt.Sprintf("frozen in epoch %d: %s: %s", p.Status.Epoch, c.Reason, c.Message), &c.LastTransitionTime
	case !v.Reported && leaving(p):
		return Waiting, "leaving: it serves nothing new, and waits for what is open", nil
	case !v.Reported:
		return Waiting, "starting: it has applied nothing yet", nil
	}
	if c := condition(p.Status.Conditions, v1alpha1.ConditionReady, 0); c != nil && c.Status != metav1.ConditionTrue {
		return Broken, c.Reason + ": " + c.Message, &c.LastTransitionTime
	}
	return OK, fmt.Sprintf("live (Lease renewed %s ago)", short(ago)), nil
}

// frozen is the condition of a proxy whose hub is not the one that it was: it serves on what it had; nil: it is the one.
func frozen(p *v1alpha1.Proxy) *metav1.Condition {
	if c := condition(p.Status.Conditions, v1alpha1.ConditionHubChanged, 0); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	return nil
}

// leaving: it was asked to leave, as its condition says (proxy.ReasonLeaving).
func leaving(p *v1alpha1.Proxy) bool {
	c := condition(p.Status.Conditions, v1alpha1.ConditionReady, 0)
	return c != nil && c.Reason == "Leaving"
}

// programmedRung says which proxies serve l, as it stands.
func programmedRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "programmed", State: Waiting, Reason: clusterv1.ReasonPending, Message: fmt.Sprintf("the manager has not judged generation %d yet", l.Generation)}
	c := condition(l.Status.Conditions, clusterv1.ConditionProgrammed, l.Generation)
	if c != nil {
		r.fromCondition(c, Broken)
		if c.Status != metav1.ConditionTrue && (c.Reason == clusterv1.ReasonPending || c.Reason == clusterv1.ReasonWaitingForProxies) {
			r.State = Waiting
		}
	} else if ev, dead := managerEvidence(o); dead {
		r.State, r.Evidence, r.Fix = Broken, []Evidence{ev}, "Start fairlead manager, or see to the one that hangs."
	}
	if r.State == OK {
		switch {
		case byService(o, l):
			r.Message = "its Service in the hub has an address, and all endpoints are written; whether packets flow is for the hub's implementation to say"
		case byOthers(o, l):
			r.Message = "nobody here looks whether it serves: whoever manages it can say"
		case byProvider(o, l):
			r.Message = "by its provider, as " + providerObject(l) + " says"
		default:
			r.Message = "on every proxy that was live then"
		}
		if d := condition(l.Status.Conditions, clusterv1.ConditionDegraded, l.Generation); d != nil && d.Status == metav1.ConditionTrue &&
			(d.Reason == clusterv1.ReasonPartlyServed || d.Reason == clusterv1.ReasonNotServed) {
			r.State, r.Reason, r.Message, r.Since = Broken, d.Reason, d.Message, &d.LastTransitionTime
		}
	}
	if r.State == Broken && (r.Reason == clusterv1.ReasonPartlyServed || r.Reason == clusterv1.ReasonNotServed) {
		r.Fix = portFix(l)
	}
	_, class := o.classOf(l)
	if byService(o, l) || byOthers(o, l) || byProvider(o, l) {
		return r
	}
	if o.hidden("proxies") || o.hidden("loadbalancerclasses") || o.hidden("leases") {
		r.Evidence = append(r.Evidence, Evidence{State: Skipped, Text: "proxies are not visible to you"})
		return r
	}
	if class == nil || class.Spec.Proxy == nil {
		return r
	}
	serving, silent := 0, 0
	for _, v := range views(o, class.Spec.Proxy.Pool) {
		e := proxyEvidence(o, l, v, r.State == OK || c != nil && c.Status == metav1.ConditionTrue)
		switch {
		case e.State == OK, e.State == Warning:
			serving++
		case !v.Live && !v.Out:
			silent++
		}
		r.Evidence = append(r.Evidence, e)
	}
	switch {
	case r.State == OK && serving == 0:
		// The condition is never taken back by a comparison; people want to know how it is now.
		r.State, r.Reason, r.Message, r.Since = Broken, clusterv1.ReasonNoProxies, "it was served, but no proxy that serves it is live now", nil
	case r.State == OK && silent > 0:
		r.State, r.Reason, r.Since = Warning, "", nil
		r.Message = fmt.Sprintf("%s now, %d silent", onProxies(serving), silent)
	case r.State == OK:
		r.Message = onProxies(serving)
	}
	return r
}

// portFix is what to do about the first port that isn't served; empty: nobody knows.
func portFix(l *clusterv1.LoadBalancer) string {
	for _, p := range l.Status.Ports {
		if fix := Fix(p.Error); p.Error != "" && fix != "" {
			return fmt.Sprintf("%s/%d: %s", p.Protocol, p.Port, fix)
		}
	}
	return ""
}

func onProxies(n int) string {
	if n == 1 {
		return "on one proxy"
	}
	return fmt.Sprintf("on %d proxies", n)
}

// proxyEvidence says how one proxy stands to l. believed: the manager believes that every live proxy has applied it.
func proxyEvidence(o *Objects, l *clusterv1.LoadBalancer, v *proof.Proxy, believed bool) Evidence {
	state, text, since := proxyState(o, v)
	if state != OK {
		return Evidence{State: state, Text: v.Name + ": " + text, Since: since}
	}
	if report := v.Reports[l.Namespace]; report != nil {
		for _, f := range report.Refused {
			if f.LoadBalancer == l.Name {
				return Evidence{State: Broken, Text: fmt.Sprintf("%s: refuses %s: %s: %s", v.Name, portName(&f), f.Problem.Reason, f.Problem.Message)}
			}
		}
	}
	if believed {
		return Evidence{State: OK, Text: v.Name + ": serves it, " + text}
	}
	version, err := proof.ParseVersion(l.ResourceVersion)
	if err == nil && v.Through.LoadBalancers >= version {
		return Evidence{State: OK, Text: fmt.Sprintf("%s: has applied version %d, the LoadBalancer stands at %d", v.Name, v.Through.LoadBalancers, version)}
	}
	return Evidence{State: Waiting, Text: fmt.Sprintf("%s: has applied version %d, the LoadBalancer stands at %s", v.Name, v.Through.LoadBalancers, l.ResourceVersion)}
}

// against says who holds up the release of an address; empty: nobody that is visible.
func against(o *Objects, a *v1alpha1.Address) string {
	if o.hidden("proxies") || o.hidden("leases") {
		return ""
	}
	var waiting []proof.Waiting
	for _, v := range views(o, a.Spec.ProxyPool) {
		if v.Out || gone(v, a) {
			continue
		}
		why := "has not reported it gone yet"
		if !v.Live {
			why = "is silent"
		}
		waiting = append(waiting, proof.Waiting{Proxy: v.Name, Why: why})
	}
	if len(waiting) == 0 {
		return ""
	}
	return ", waiting for proxies: " + proof.Names(waiting)
}

// gone: the proxy lists it so in a namespace of a holder.
func gone(v *proof.Proxy, a *v1alpha1.Address) bool {
	for _, report := range v.Reports {
		for _, e := range report.Addresses {
			if e.Name == a.Name && e.UID == string(a.UID) && e.State == v1alpha1.ReportedGone {
				return true
			}
		}
	}
	return false
}
