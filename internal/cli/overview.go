package cli

import (
	"cmp"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Summarize turns the hub's objects into an overview.
func Summarize(o *Objects) Overview {
	v := Overview{Hidden: slices.Clone(o.Hidden)}
	if ev, dead := managerEvidence(o); dead {
		v.add(Problem{State: Broken, Object: "manager", Message: ev.Text + ": start fairlead manager, or see to the one that hangs"})
	}
	v.proxies(o)
	v.pools(o)
	v.classes(o)
	v.loadBalancers(o)
	v.tenants(o)
	v.targetGroups(o)
	v.addresses(o)
	slices.SortStableFunc(v.Problems, func(a, b Problem) int { return cmp.Compare(rank(a.State), rank(b.State)) })
	v.Healthy = len(v.Problems) == 0 || !v.Problems[0].State.bad()
	return v
}

func (v *Overview) add(p Problem) { v.Problems = append(v.Problems, p) }

// addCondition adds a Problem if the condition is not as it should be.
func (v *Overview) addCondition(object string, c *metav1.Condition, want metav1.ConditionStatus, s State) {
	if c != nil && c.Status != want {
		v.add(Problem{State: s, Object: object, Reason: c.Reason, Message: c.Message, Since: &c.LastTransitionTime})
	}
}

func (v *Overview) proxies(o *Objects) {
	if o.hidden("proxies") || o.hidden("leases") {
		return
	}
	live := 0
	for _, x := range views(o, "") {
		i := slices.IndexFunc(o.Proxies, func(p *v1alpha1.Proxy) bool { return p.Name == x.Name })
		p := o.Proxies[i]
		state, text, since := proxyState(o, x)
		if state == OK {
			live++
		}
		if state == Broken || state == Waiting {
			v.add(Problem{State: state, Object: "Proxy " + x.Name, Message: text, Since: since})
		}
		v.Proxies = append(v.Proxies, ProxyLine{
			Name: x.Name, Pool: x.Pool, State: state, Text: text, Dataplane: p.Status.Dataplane, Frontends: p.Status.Frontends,
			Through: p.Status.Through.LoadBalancers,
		})
	}
	if live == 0 {
		v.add(Problem{State: Broken, Object: "proxies", Reason: clusterv1.ReasonNoProxies, Message: "no proxy is live: nothing is served"})
	}
}

func (v *Overview) pools(o *Objects) {
	for _, p := range o.Pools {
		v.Pools = append(v.Pools, PoolLine{p.Name, p.Status.Free, p.Status.Granted, p.Status.Releasing})
		c := condition(p.Status.Conditions, v1alpha1.ConditionReady, p.Generation)
		v.addCondition("AddressPool "+p.Name, c, metav1.ConditionTrue, Broken)
		if c != nil && c.Status == metav1.ConditionTrue && p.Status.Free == 0 {
			v.add(Problem{State: Warning, Object: "AddressPool " + p.Name, Reason: clusterv1.ReasonPoolExhausted,
				Message: fmt.Sprintf("no address is free, %d are granted, %d are being released", p.Status.Granted, p.Status.Releasing)})
		}
	}
	slices.SortFunc(v.Pools, func(a, b PoolLine) int { return cmp.Compare(a.Name, b.Name) })
}

func (v *Overview) classes(o *Objects) {
	for _, c := range o.Classes {
		v.addCondition("LoadBalancerClass "+c.Name, condition(c.Status.Conditions, v1alpha1.ConditionAccepted, c.Generation), metav1.ConditionTrue, Broken)
	}
}

func (v *Overview) loadBalancers(o *Objects) {
	for _, l := range o.LoadBalancers {
		v.Totals.Total++
		object := fmt.Sprintf("LoadBalancer %s/%s", l.Namespace, l.Name)
		line := LoadBalancerLine{Namespace: l.Namespace, Name: l.Name, Origin: l.Annotations[v1alpha1.AnnotationOrigin], Class: l.Spec.ClassName}
		for _, a := range l.Status.Addresses {
			line.Address = a.Value
			break
		}
		ready := condition(l.Status.Conditions, clusterv1.ConditionReady, l.Generation)
		switch degraded := condition(l.Status.Conditions, clusterv1.ConditionDegraded, l.Generation); {
		case l.DeletionTimestamp != nil:
			v.Totals.Deleting++
			line.State, line.Reason = Waiting, clusterv1.ReasonDeleting
		case ready == nil:
			v.Totals.Waiting++
			line.State, line.Reason = Waiting, clusterv1.ReasonPending
			v.add(Problem{State: Waiting, Object: object, Reason: clusterv1.ReasonPending, Message: fmt.Sprintf("the manager has not judged generation %d yet", l.Generation)})
		case ready.Status != metav1.ConditionTrue && (ready.Reason == clusterv1.ReasonPending || ready.Reason == clusterv1.ReasonWaitingForProxies):
			v.Totals.Waiting++
			line.State, line.Reason = Waiting, ready.Reason
			v.addCondition(object, ready, metav1.ConditionTrue, Waiting)
		case ready.Status != metav1.ConditionTrue:
			v.Totals.NotReady++
			line.State, line.Reason = Broken, ready.Reason
			v.addCondition(object, ready, metav1.ConditionTrue, Broken)
		default:
			v.Totals.Ready++
			line.State = OK
			if degraded == nil || degraded.Status != metav1.ConditionTrue {
				break
			}
			v.Totals.Degraded++
			line.State, line.Reason = Warning, degraded.Reason
			if degraded.Reason == clusterv1.ReasonNotServed || degraded.Reason == clusterv1.ReasonPartlyServed {
				line.State = Broken
			}
			v.addCondition(object, degraded, metav1.ConditionFalse, line.State)
		}
		v.Lines = append(v.Lines, line)
	}
	slices.SortFunc(v.Lines, func(a, b LoadBalancerLine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func (v *Overview) tenants(o *Objects) {
	lbs, targets, active, addresses := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, l := range o.LoadBalancers {
		lbs[l.Namespace]++
	}
	for _, g := range o.TargetGroups {
		targets[g.Namespace] += len(g.Spec.Targets)
		active[g.Namespace] += len(g.Spec.Targets) - len(g.Status.Targets)
	}
	for _, a := range o.Addresses {
		namespaces := map[string]bool{}
		for _, h := range a.Spec.Holders {
			if a.Spec.Phase == v1alpha1.AddressGranted && !namespaces[h.Namespace] {
				namespaces[h.Namespace] = true
				addresses[h.Namespace]++
			}
		}
	}
	for _, t := range o.Tenants {
		n := t.NamespaceName()
		object := "Tenant " + t.Name
		v.Tenants = append(v.Tenants, TenantLine{
			Name: t.Name, Namespace: n,
			Ready:         statusOf(t.Status.Conditions, v1alpha1.ConditionReady),
			Agent:         statusOf(t.Status.Conditions, v1alpha1.ConditionAgentConnected),
			LoadBalancers: lbs[n], Addresses: addresses[n], Members: fmt.Sprintf("%d/%d", active[n], targets[n]),
		})
		if t.Spec.Suspend {
			v.add(Problem{State: Warning, Object: object, Reason: clusterv1.ReasonSuspended, Message: "it is suspended: nothing of it is served"})
			continue
		}
		v.addCondition(object, condition(t.Status.Conditions, v1alpha1.ConditionReady, t.Generation), metav1.ConditionTrue, Broken)
		v.addCondition(object, condition(t.Status.Conditions, v1alpha1.ConditionAgentConnected, t.Generation), metav1.ConditionTrue, Warning)
	}
	slices.SortFunc(v.Tenants, func(a, b TenantLine) int { return cmp.Compare(a.Name, b.Name) })
}

func statusOf(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return string(c.Status)
	}
	return string(metav1.ConditionUnknown)
}

func (v *Overview) targetGroups(o *Objects) {
	admitted := map[string]build.Admission{} // by namespace
	for _, g := range o.TargetGroups {
		admission, judged := admitted[g.Namespace]
		if !judged {
			admission = o.admission(g.Namespace)
			admitted[g.Namespace] = admission
		}
		object := fmt.Sprintf("TargetGroup %s/%s", g.Namespace, g.Name)
		for _, p := range build.ValidateTargetGroup(g, o.tenantOf(g.Namespace), admission) {
			v.add(Problem{State: Warning, Object: object, Reason: p.Reason, Message: p.Field + ": " + p.Message})
			break
		}
		unhealthy := condition(g.Status.Conditions, v1alpha1.ConditionHealthy, g.Generation)
		v.addCondition(object, unhealthy, metav1.ConditionTrue, Warning)
	}
}

// slowRelease is how long a release may take until somebody should hear of it.
const slowRelease = silence

func (v *Overview) addresses(o *Objects) {
	for _, a := range o.Addresses {
		if a.Spec.Phase != v1alpha1.AddressReleasing || a.Spec.ReleasingSince == nil || o.Now.Sub(a.Spec.ReleasingSince.Time) < slowRelease {
			continue
		}
		if who := against(o, a); who != "" {
			v.add(Problem{State: Warning, Object: "Address " + a.Name, Reason: clusterv1.ReasonReleaseBlocked, Message: "its release takes long" + who, Since: a.Spec.ReleasingSince})
		}
	}
}
