package cli

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shownNames is how many names are listed until the rest is counted.
const shownNames = 5

// ExplainNode says why a tenant's Node gets connections, or doesn't. namespace is its Tenant's in the hub.
func ExplainNode(o *Objects, namespace, name string) Explanation {
	e := Explanation{Kind: kindNode, Subject: "Node " + name, Now: o.Now}
	if t := o.tenantOf(namespace); t != nil {
		e.Subject += " of Tenant " + t.Name
	}
	n := findNode(o, name)
	e.Rungs = append(e.Rungs, nodeRung(o, name, n), tenantRung(o, namespace))
	g, i := findTarget(o, namespace, name)
	e.Rungs = append(e.Rungs, targetRung(o, namespace, name, n, g, i))
	if g == nil {
		e.Rungs = append(e.Rungs, unreached("checks", "used by")...)
	} else {
		if g.Drains(i) {
			e.Rungs = append(e.Rungs, drainRung(o, n, g, i))
		}
		e.Rungs = append(e.Rungs, checksRung(o, g, i), usersRung(o, g))
	}
	e.conclude()
	return e
}

func findNode(o *Objects, name string) *corev1.Node {
	i := slices.IndexFunc(o.Nodes, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return o.Nodes[i]
}

// findTarget is the TargetGroup of a namespace with a target of that name, those that mirror Nodes first; nil: there is none.
func findTarget(o *Objects, namespace, name string) (*v1alpha1.TargetGroup, int) {
	var found *v1alpha1.TargetGroup
	at := -1
	for _, g := range o.TargetGroups {
		i := slices.IndexFunc(g.Spec.Targets, func(t v1alpha1.Target) bool { return t.Name == name })
		if g.Namespace != namespace || i < 0 {
			continue
		}
		if mirrorsNodes(g) {
			return g, i
		}
		if found == nil {
			found, at = g, i
		}
	}
	return found, at
}

// mirrorsNodes: an agent writes the group, from its cluster's Nodes.
func mirrorsNodes(g *v1alpha1.TargetGroup) bool {
	return g.Labels[v1alpha1.LabelTargets] == v1alpha1.TargetsNodes
}

// nodeRung looks at the Node itself, as the agent judges it.
func nodeRung(o *Objects, name string, n *corev1.Node) Rung {
	r := Rung{Name: "node", State: Broken}
	switch {
	case o.Nodes == nil:
		r.State, r.Message = Skipped, "not looked at; give --tenant-kubeconfig to see it too"
		return r
	case n == nil:
		r.Message, r.Fix = "the tenant cluster has no Node "+name, "Look for its name with: kubectl get nodes"
		return r
	}
	t, why := node.Target(n)
	if why != "" {
		r.Message = "it is no target: " + why
		r.Fix = "If it should be one, take that away: the label with kubectl label node " + name + " " + corev1.LabelNodeExcludeBalancers + "-; an address comes from the kubelet or the cloud provider."
		if n.DeletionTimestamp != nil {
			r.Reason, r.Since, r.Fix = clusterv1.ReasonDeleting, n.DeletionTimestamp, "Nothing, if it should go."
		}
		return r
	}
	r.State, r.Message = OK, "addresses "+strings.Join(t.Addresses, ", ")
	if t.Zone != "" {
		r.Message += ", zone " + t.Zone
	}
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	switch {
	case i < 0:
		r.State, r.Evidence = Warning, []Evidence{{State: Warning, Text: "its kubelet has never said that it is Ready"}}
	case n.Status.Conditions[i].Status != corev1.ConditionTrue:
		c := n.Status.Conditions[i]
		// It is judged by checks of the proxies, which see what clients would see.
		r.State = Warning
		r.Evidence = []Evidence{{State: Warning, Text: strings.TrimSuffix(fmt.Sprintf("Ready is %s: %s: %s", c.Status, c.Reason, c.Message), ": "), Since: &c.LastTransitionTime}}
	}
	if n.Spec.Unschedulable {
		r.Evidence = append(r.Evidence, Evidence{State: OK, Text: "it is cordoned, which changes nothing here"})
	}
	return r
}

// targetRung says what the hub has of the Node.
func targetRung(o *Objects, namespace, name string, n *corev1.Node, g *v1alpha1.TargetGroup, i int) Rung {
	r := Rung{Name: "target", State: Broken}
	if g == nil {
		r.Reason, r.Message = clusterv1.ReasonNoTargets, fmt.Sprintf("no TargetGroup of namespace %s has a target %s", namespace, name)
		r.Fix = "Look for the name with kubectl get nodes in the tenant cluster; if it is there and has an address, see to the tenant's agent: its log says what it can't do."
		return r
	}
	t := &g.Spec.Targets[i]
	r.State, r.Message = OK, fmt.Sprintf("in TargetGroup %s/%s, %s", g.Namespace, g.Name, strings.Join(t.Addresses, ", "))
	if p, refused := problemOfTarget(g, i, o.tenantOf(namespace), o.admission(namespace)); refused && !o.hidden("tenants") {
		r.State, r.Reason, r.Message = Broken, p.Reason, p.Field+": "+p.Message
		return r
	}
	if n != nil && mirrorsNodes(g) {
		wanted, why := node.Target(n)
		switch {
		case why != "":
		case wanted.UID != t.UID:
			r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, r.Message+": it stands for an earlier Node of that name; the agent has yet to write the present one"
		case !slices.Equal(wanted.Addresses, t.Addresses):
			r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, r.Message+": the agent has yet to write the Node's present addresses"
		case wanted.State != t.State && !(wanted.State == v1alpha1.TargetServing && t.State == ""):
			r.State, r.Reason, r.Message = Waiting, clusterv1.ReasonPending, r.Message+": the agent has yet to write that it is "+string(wanted.State)
		}
	}
	if until, ok := heldUntil(g); ok && r.State == OK {
		r.State, r.Reason = Warning, service.ReasonNodesMissing
		r.Message += fmt.Sprintf("; most Nodes of the cluster are missing, and stay targets until %s", until)
	}
	return r
}

// drainRung says who told it to drain, and who still has connections open.
func drainRung(o *Objects, n *corev1.Node, g *v1alpha1.TargetGroup, i int) Rung {
	r := Rung{Name: "drain", State: Waiting, Message: "it is told to drain"}
	_, group := g.Annotations[clusterv1.DisabledAnnotation]
	switch {
	case group:
		r.Message = fmt.Sprintf("TargetGroup %s/%s has the annotation %s", g.Namespace, g.Name, clusterv1.DisabledAnnotation)
		r.Fix = fmt.Sprintf("To have it back: fairlead drain target %s -n %s --undo", g.Name, g.Namespace)
	case g.DeletionTimestamp != nil:
		r.Message, r.Fix = fmt.Sprintf("TargetGroup %s/%s is being deleted", g.Namespace, g.Name), "Nothing, if it should go."
	case !mirrorsNodes(g):
		r.Message = "its TargetGroup says state Draining"
		r.Fix = fmt.Sprintf("To have it back: fairlead drain target %s %s -n %s --undo", g.Name, g.Spec.Targets[i].Name, g.Namespace)
	default:
		r.Fix = fmt.Sprintf("To have it back: fairlead drain node %s --undo; where the cluster autoscaler's taint did it, the autoscaler decides.", g.Spec.Targets[i].Name)
		if n != nil {
			r.Message = "it has the cluster autoscaler's taint"
			if _, disabled := n.Annotations[clusterv1.DisabledAnnotation]; disabled {
				r.Message = "the Node has the annotation " + clusterv1.DisabledAnnotation
			}
		}
	}
	if m := memberStatus(g, i); m != nil {
		r.Message += ", and is " + m.State
		r.Since = m.Since
	}
	for _, s := range saidOf(o, g, i) {
		switch s.entry.State {
		case v1alpha1.ReportedDraining:
			r.Evidence = append(r.Evidence, Evidence{State: Waiting, Text: fmt.Sprintf("%s has %s", s.proxy.Name, count(int(s.entry.OpenConnections), "open connection"))})
		case v1alpha1.ReportedGone:
			r.Evidence = append(r.Evidence, Evidence{State: OK, Text: s.proxy.Name + " has let go of it"})
		}
	}
	return r
}

// usersRung names the LoadBalancers that send to the group.
func usersRung(o *Objects, g *v1alpha1.TargetGroup) Rung {
	r := Rung{Name: "used by", State: OK}
	users := usersOf(o, g)
	if len(users) == 0 {
		r.Message = "no LoadBalancer selects it"
		return r
	}
	var names []string
	for _, l := range users {
		names = append(names, userName(l))
	}
	r.Message = fmt.Sprintf("%s: %s", count(len(users), "LoadBalancer"), some(names))
	return r
}

// userName is the Service that a LoadBalancer was made for, else itself.
func userName(l *clusterv1.LoadBalancer) string {
	if origin, ok := service.Origin(l); ok {
		return "Service " + origin.String()
	}
	return "LoadBalancer " + l.Namespace + "/" + l.Name
}

// some lists names, and counts what is more than a few.
func some(names []string) string {
	if len(names) <= shownNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownNames], ", "), len(names)-shownNames)
}

// usersOf are the LoadBalancers that select a group, by name.
func usersOf(o *Objects, g *v1alpha1.TargetGroup) []*clusterv1.LoadBalancer {
	var out []*clusterv1.LoadBalancer
	for _, l := range o.LoadBalancers {
		if l.Namespace == g.Namespace && l.DeletionTimestamp == nil && selects(l, g) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *clusterv1.LoadBalancer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// selects says whether a LoadBalancer of the same namespace selects g.
func selects(l *clusterv1.LoadBalancer, g *v1alpha1.TargetGroup) bool {
	selector, err := build.Selector(l)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(g.Labels))
}

// problemOfTarget is what is wrong with target i; false: it may be sent to.
func problemOfTarget(g *v1alpha1.TargetGroup, i int, tenant *v1alpha1.Tenant, a build.Admission) (lb.Problem, bool) {
	alone := g.DeepCopy()
	alone.Spec.Targets = alone.Spec.Targets[i : i+1]
	if build.Sendable(alone, tenant, a) > 0 {
		return lb.Problem{}, false
	}
	at := fmt.Sprintf("spec.targets[%d]", i)
	for _, p := range build.ValidateTargetGroup(g, tenant, a) {
		if p.Field == at || strings.HasPrefix(p.Field, at+".") {
			return p, true
		}
	}
	return lb.Problem{Field: at + ".addresses", Reason: clusterv1.ReasonPending, Message: "the target has no address yet"}, true
}
