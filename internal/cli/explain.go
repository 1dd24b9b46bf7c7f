package cli

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/ipam"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ExplainService says why a tenant's Service is served, or isn't. namespace is
// its Tenant's in the hub.
func ExplainService(o *Objects, namespace string, key types.NamespacedName) Explanation {
	e := Explanation{Kind: kindService, Subject: "Service " + key.String(), Now: o.Now}
	if t := o.tenantOf(namespace); t != nil {
		e.Subject += " of Tenant " + t.Name
	}
	s := serviceRung(o, key)
	if is := findService(o, key); is != nil {
		e.happened(eventsOf(o, kindService, is))
		if slices.Contains(o.EventsHidden, kindService) {
			e.EventsHidden = append(e.EventsHidden, kindService+" "+key.String())
		}
	}
	e.Rungs = append(e.Rungs, s, tenantRung(o, namespace))
	l := madeFrom(o, namespace, key)
	if l == nil {
		e.Rungs = append(e.Rungs, noLoadBalancerRung(o, namespace, key))
		e.Rungs = append(e.Rungs, unreached("class", "address", "programmed", "members")...)
	} else {
		e.Rungs = append(e.Rungs, loadBalancerRungs(o, l)...)
		e.happened(eventsOf(o, kindLoadBalancer, l))
	}
	if o.Services != nil {
		e.Rungs = append(e.Rungs, publishedRung(o, namespace, key, l))
	}
	e.conclude()
	return e
}

// ExplainLoadBalancer says the same of a LoadBalancer, whoever made it. hub is where one of a management cluster is served; nil: that
// wasn't looked at.
func ExplainLoadBalancer(o *Objects, key types.NamespacedName, hub *Elsewhere) Explanation {
	e := Explanation{Kind: kindLoadBalancer, Subject: "LoadBalancer " + key.String(), Now: o.Now}
	i := slices.IndexFunc(o.LoadBalancers, func(l *clusterv1.LoadBalancer) bool { return l.Namespace == key.Namespace && l.Name == key.Name })
	mirrored := i >= 0 && isMirrored(o.LoadBalancers[i])
	if !mirrored {
		e.Rungs = append(e.Rungs, tenantRung(o, key.Namespace))
	}
	if i < 0 {
		e.Rungs = append(e.Rungs, Rung{Name: "accepted", State: Broken, Message: "there is no LoadBalancer " + key.String(), Fix: "Look for its name with: kubectl get lb -A"})
	} else {
		l := o.LoadBalancers[i]
		if origin, ok := service.Origin(l); ok { // its agent writes events, to the Service
			e.Subject += ", made from Service " + origin.String()
		} else if slices.Contains(o.EventsHidden, kindLoadBalancer) {
			e.EventsHidden = append(e.EventsHidden, kindLoadBalancer+" "+key.String())
		}
		if mirrored {
			e.Rungs = append(e.Rungs, mirroredRungs(l, hub)...)
		} else {
			e.Rungs = append(e.Rungs, loadBalancerRungs(o, l)...)
		}
		e.happened(eventsOf(o, kindLoadBalancer, l))
	}
	e.conclude()
	return e
}

func madeFrom(o *Objects, namespace string, key types.NamespacedName) *clusterv1.LoadBalancer {
	for _, l := range o.LoadBalancers {
		if origin, ok := service.Origin(l); ok && l.Namespace == namespace && origin == key {
			return l
		}
	}
	return nil
}

func unreached(names ...string) []Rung {
	var out []Rung
	for _, n := range names {
		out = append(out, Rung{Name: n, State: Skipped})
	}
	return out
}

func findService(o *Objects, key types.NamespacedName) *corev1.Service {
	for _, s := range o.Services {
		if service.Key(s) == key {
			return s
		}
	}
	return nil
}

// serviceRung looks at the Service itself.
func serviceRung(o *Objects, key types.NamespacedName) Rung {
	r := Rung{Name: "service", State: Broken}
	s := findService(o, key)
	switch {
	case o.Services == nil:
		r.State, r.Message = Skipped, "not looked at; give --tenant-kubeconfig to see it too"
	case s == nil:
		r.Message, r.Fix = "the tenant cluster has no Service "+key.String(), "Create it, or look for its name with: kubectl get services -A"
	case s.DeletionTimestamp != nil:
		r.Reason, r.Message, r.Since = clusterv1.ReasonDeleting, "it is being deleted", s.DeletionTimestamp
	default:
		filter := service.Filter{ClassPrefix: "fairlead.dev", Unclassed: true}
		class, ours := filter.Class(s)
		switch {
		case !ours && s.Spec.Type == corev1.ServiceTypeNodePort:
			r.Message, r.Fix = "it is of type NodePort and doesn't ask to be exposed", "Set the annotation "+v1alpha1.AnnotationExposeNodePort+" to \"true\", or spec.type to LoadBalancer."
			return r
		case !ours && s.Spec.Type != corev1.ServiceTypeLoadBalancer:
			r.Message, r.Fix = fmt.Sprintf("it is of type %s", s.Spec.Type), "Set spec.type to LoadBalancer."
			return r
		case !ours:
			r.State = Warning
			r.Message = fmt.Sprintf("spec.loadBalancerClass is %q, which a Fairlead agent takes only if its --class-prefix says so", *s.Spec.LoadBalancerClass)
			return r
		}
		r.State, r.Message = OK, fmt.Sprintf("type %s, %s", s.Spec.Type, count(len(s.Spec.Ports), "port"))
		if class != "" {
			r.Message += ", class " + class
		}
	}
	return r
}

// tenantRung looks at the Tenant and its agent.
func tenantRung(o *Objects, namespace string) Rung {
	r := Rung{Name: "tenant", State: OK}
	t := o.tenantOf(namespace)
	switch {
	case t == nil && o.hidden("tenants"):
		r.State, r.Message = Skipped, "Tenants are not visible to you"
		return r
	case t == nil:
		r.Message = fmt.Sprintf("none: namespace %s belongs to the hub's operator", namespace)
		return r
	case t.Spec.Suspend:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonSuspended, fmt.Sprintf("Tenant %s is suspended: nothing of it is served", t.Name)
		return r
	}
	r.Message = t.Name
	if c := condition(t.Status.Conditions, v1alpha1.ConditionReady, t.Generation); c != nil && c.Status != metav1.ConditionTrue {
		r.fromCondition(c, Broken)
		return r
	}
	c := condition(t.Status.Conditions, v1alpha1.ConditionAgentConnected, t.Generation)
	switch {
	case c == nil:
		r.State, r.Message = Warning, t.Name+": the manager has not said yet whether its agent is at work"
	case c.Status != metav1.ConditionTrue:
		// What the agent made is served without it.
		r.fromCondition(c, Warning)
	default:
		r.Message += ", its agent is at work"
		if ago, ok := o.renewed(o.lease(namespace, v1alpha1.AgentLease)); ok {
			r.Message += fmt.Sprintf(" (Lease renewed %s ago)", short(ago))
		}
	}
	return r
}

// noLoadBalancerRung says why the hub may have nothing made from a Service.
func noLoadBalancerRung(o *Objects, namespace string, key types.NamespacedName) Rung {
	r := Rung{Name: "accepted", State: Broken, Message: fmt.Sprintf("namespace %s of the hub has no LoadBalancer made from Service %s", namespace, key)}
	s, t := findService(o, key), o.tenantOf(namespace)
	r.Fix = "Check that the Service is there and of type LoadBalancer, and that the tenant's agent runs: its log and the Service's events say what it can't do."
	if t != nil {
		if c := condition(t.Status.Conditions, v1alpha1.ConditionAgentConnected, t.Generation); c != nil && c.Status != metav1.ConditionTrue {
			r.Reason, r.Fix = c.Reason, Fix(c.Reason)
		}
	}
	if s != nil {
		if c := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed); c != nil {
			r.Reason = c.Reason
			r.Evidence = append(r.Evidence, Evidence{State: Broken, Text: "the agent says: " + c.Message, Since: &c.LastTransitionTime})
		}
	}
	return r
}

// loadBalancerRungs are those that lie in the hub.
func loadBalancerRungs(o *Objects, l *clusterv1.LoadBalancer) []Rung {
	accepted := acceptedRung(o, l)
	rungs := []Rung{accepted}
	if held, is := heldRung(o, l); is {
		rungs = append(rungs, held)
	}
	rungs = append(rungs, classRung(o, l))
	if accepted.State.bad() {
		return append(rungs, unreached("address", "programmed", "members")...)
	}
	address := addressRung(o, l)
	if rungs = append(rungs, address); address.State.bad() {
		return append(rungs, unreached("programmed", "members")...)
	}
	rungs = append(append(rungs, programmedRung(o, l)), machinesRungs(l)...)
	return append(rungs, membersRung(o, l))
}

// acceptedRung says whether the spec makes sense; the manager's word if it has spoken of this generation.
func acceptedRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "accepted", State: OK}
	if l.DeletionTimestamp != nil {
		r.State, r.Reason, r.Message, r.Since = Broken, clusterv1.ReasonDeleting, "it is being deleted and no longer served", l.DeletionTimestamp
		return r
	}
	if c := condition(l.Status.Conditions, clusterv1.ConditionAccepted, l.Generation); c != nil {
		r.fromCondition(c, Broken)
		if r.State == OK {
			r.Message = fmt.Sprintf("LoadBalancer %s/%s, %s", l.Namespace, l.Name, count(len(build.Ports(l)), "port"))
		}
		return r
	}
	_, class := o.classOf(l)
	if !o.hidden("loadbalancerclasses") && !o.hidden("tenants") {
		if p, refused := build.RefusalOfAll(build.Validate(l, class, o.tenantOf(l.Namespace))); refused {
			r.State, r.Reason, r.Message = Broken, p.Reason, p.Field+": "+p.Message
			return r
		}
	}
	r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, fmt.Sprintf("the manager has not judged generation %d yet", l.Generation)
	if ev, dead := managerEvidence(o); dead {
		r.State, r.Evidence, r.Fix = Broken, []Evidence{ev}, "Start fairlead manager, or see to the one that hangs."
	}
	return r
}

// managerEvidence says whether no manager is at work.
func managerEvidence(o *Objects) (Evidence, bool) {
	if o.hidden("leases") {
		return Evidence{}, false
	}
	ago, ok := o.renewed(o.lease(v1alpha1.SystemNamespace, managerLease))
	switch {
	case !ok:
		return Evidence{State: Broken, Text: "no manager holds the Lease " + v1alpha1.SystemNamespace + "/" + managerLease}, true
	case ago > silence:
		return Evidence{State: Broken, Text: fmt.Sprintf("the manager renewed its Lease %s ago", short(ago))}, true
	}
	return Evidence{}, false
}

func addressRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "address", State: OK}
	c := condition(l.Status.Conditions, clusterv1.ConditionAddressGranted, l.Generation)
	if c == nil {
		r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, "no address is granted yet"
		return r
	}
	bad := Broken
	if c.Reason == clusterv1.ReasonPending {
		bad = Waiting
	}
	r.fromCondition(c, bad)
	if r.State != OK {
		r.Evidence = poolEvidence(o, l)
		return r
	}
	if len(l.Status.Addresses) == 0 {
		return r
	}
	var values []string
	for _, a := range l.Status.Addresses {
		values = append(values, a.Value)
		if a.Pool != "" {
			values[len(values)-1] += " of pool " + a.Pool
		}
	}
	r.Message = strings.Join(values, ", ")
	granted := grantsOf(o, l)
	lost := slices.DeleteFunc(l.Status.DeepCopy().Addresses, func(a clusterv1.LoadBalancerAddress) bool { return granted[a.Value] })
	if len(lost) > 0 && !o.hidden("addresses") && !byService(o, l) && !byOthers(o, l) && !byProvider(o, l) {
		r.State, r.Message, r.Since = Broken, r.Message+": status shows "+lost[0].Value+", but the ledger has no such grant", nil
		r.Fix = "The manager mends this by itself. If it stays so, see to the manager."
	}
	return r
}

// grantsOf are the addresses that l holds.
func grantsOf(o *Objects, l *clusterv1.LoadBalancer) map[string]bool {
	granted := map[string]bool{}
	for _, a := range o.Addresses {
		if a.Spec.Phase == v1alpha1.AddressGranted && slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool { return h.Namespace == l.Namespace && h.Name == l.Name }) {
			granted[a.Spec.Address] = true
			for _, shown := range l.Status.Addresses { // those of proxies' hosts
				if at, err := netip.ParseAddr(shown.Value); err == nil && shown.Pool == a.Spec.Pool && o.onHost(a, at) {
					granted[shown.Value] = true
				}
			}
		}
	}
	return granted
}

// poolEvidence counts the pools that l may get an address from, and names what is being released there.
func poolEvidence(o *Objects, l *clusterv1.LoadBalancer) []Evidence {
	pools := l.Spec.AddressPools
	if _, class := o.classOf(l); len(pools) == 0 && class != nil {
		pools = class.Spec.AddressPools
	}
	var out []Evidence
	for _, name := range pools {
		i := slices.IndexFunc(o.Pools, func(p *v1alpha1.AddressPool) bool { return p.Name == name })
		if i < 0 {
			if !o.hidden("addresspools") {
				out = append(out, Evidence{State: Broken, Text: fmt.Sprintf("there is no pool %s", name)})
			}
			continue
		}
		s := o.Pools[i].Status
		out = append(out, Evidence{State: stateIf(s.Free == 0, Broken), Text: fmt.Sprintf("pool %s: %d free, %d granted, %d being released", name, s.Free, s.Granted, s.Releasing)})
		for _, a := range o.Addresses {
			if a.Spec.Pool == name && a.Spec.Phase == v1alpha1.AddressReleasing {
				out = append(out, Evidence{State: Waiting, Text: fmt.Sprintf("%s is being released%s", heldBy(a), against(o, a)), Since: a.Spec.ReleasingSince})
			}
		}
	}
	return out
}

// heldBy names what an Address holds.
func heldBy(a *v1alpha1.Address) string {
	if w, err := ipam.ParseName(a.Name); err == nil && w.Port != (ipam.Port{}) {
		return w.String()
	}
	return a.Spec.Address
}

func stateIf(bad bool, s State) State {
	if bad {
		return s
	}
	return OK
}

// publishedRung compares the Service's status with the LoadBalancer's.
func publishedRung(o *Objects, namespace string, key types.NamespacedName, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "published", State: Skipped}
	s := findService(o, key)
	if s == nil || l == nil || len(l.Status.Addresses) == 0 {
		return r
	}
	at, where := service.InStatus, "status"
	if s.Spec.Type == corev1.ServiceTypeNodePort || slices.Contains(s.Finalizers, service.OwnFinalizer) {
		at, where = service.InAnnotation, "annotation "+v1alpha1.AnnotationPublished
	}
	var shown []string
	for _, i := range service.Shown(s, at) {
		shown = append(shown, cmp.Or(i.IP, i.Hostname))
		for _, p := range i.Ports {
			if p.Error != nil {
				r.Evidence = append(r.Evidence, Evidence{State: Broken, Text: fmt.Sprintf("port %d: %s", p.Port, *p.Error)})
			}
		}
	}
	var want, missing []string
	for _, a := range l.Status.Addresses {
		if want = append(want, a.Value); !slices.Contains(shown, a.Value) {
			missing = append(missing, a.Value)
		}
	}
	switch c := meta.FindStatusCondition(s.Status.Conditions, service.ConditionProgrammed); {
	case len(missing) == 0:
		r.State, r.Message = OK, fmt.Sprintf("the Service's %s shows %s", where, strings.Join(want, ", "))
	default:
		r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, fmt.Sprintf("the Service's %s doesn't show %s yet", where, strings.Join(missing, ", "))
		if t := o.tenantOf(namespace); t != nil {
			if c := condition(t.Status.Conditions, v1alpha1.ConditionAgentConnected, t.Generation); c != nil && c.Status != metav1.ConditionTrue {
				r.State, r.Reason, r.Since = Broken, c.Reason, &c.LastTransitionTime
			}
		}
		if c != nil {
			r.Evidence = append(r.Evidence, Evidence{State: Waiting, Text: "the agent says: " + c.Message, Since: &c.LastTransitionTime})
		}
	}
	return r
}
