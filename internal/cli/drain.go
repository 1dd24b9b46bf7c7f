package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// States of a target in TargetGroup.status, which leaves out active ones.
const (
	stateActive    = "active"
	stateWaiting   = "waiting"
	stateUnhealthy = "unhealthy"
	stateDraining  = "draining"
	stateDrained   = "drained"
)

// Targets names what is to be drained, within one namespace of the hub.
type Targets struct {
	Namespace string
	// Node is a Node of the Tenant's cluster; empty: Group and Target count.
	Node string
	// Group is a TargetGroup, and Target one of its targets; empty: all of them.
	Group, Target string
}

func (t Targets) String() string {
	switch {
	case t.Node != "":
		return "Node " + t.Node
	case t.Target != "":
		return fmt.Sprintf("target %s of TargetGroup %s/%s", t.Target, t.Namespace, t.Group)
	}
	return fmt.Sprintf("all targets of TargetGroup %s/%s", t.Namespace, t.Group)
}

// ErrTarget says that there is no such target, or not one that can be drained that way.
var ErrTarget = errors.New("can't drain")

// place is a target and where it stands.
type place struct {
	group *v1alpha1.TargetGroup
	index int
}

// mark is a target that is to drain, by what no other has.
type mark struct {
	id   memberID
	name string
}

// find is where the target stands now; false: the hub has it no more.
func (m mark) find(o *Objects) (place, bool) {
	for _, g := range o.TargetGroups {
		for i := range g.Spec.Targets {
			if idOf(g, i) == m.id {
				return place{g, i}, true
			}
		}
	}
	return place{}, false
}

// find returns the targets, or an error that names the object and says what to do.
func (t Targets) find(o *Objects) ([]place, error) {
	if t.Node != "" {
		g, i := findTarget(o, t.Namespace, t.Node)
		if g == nil || !mirrorsNodes(g) {
			return nil, fmt.Errorf("%w Node %s: no TargetGroup of namespace %s mirrors it: look with fairlead explain node %s", ErrTarget, t.Node, t.Namespace, t.Node)
		}
		return []place{{g, i}}, nil
	}
	at := slices.IndexFunc(o.TargetGroups, func(g *v1alpha1.TargetGroup) bool { return g.Namespace == t.Namespace && g.Name == t.Group })
	if at < 0 {
		return nil, fmt.Errorf("%w %s: namespace %s has no TargetGroup %s: look for its name with kubectl get targetgroups -n %s", ErrTarget, t, t.Namespace, t.Group, t.Namespace)
	}
	g := o.TargetGroups[at]
	if t.Target == "" {
		out := make([]place, len(g.Spec.Targets))
		for i := range g.Spec.Targets {
			out[i] = place{g, i}
		}
		return out, nil
	}
	if mirrorsNodes(g) {
		return nil, fmt.Errorf("%w %s: an agent writes that group from its cluster's Nodes, and would write it again: use fairlead drain node %s", ErrTarget, t, t.Target)
	}
	i := slices.IndexFunc(g.Spec.Targets, func(x v1alpha1.Target) bool { return x.Name == t.Target })
	if i < 0 {
		fix := ""
		if of := generatedFrom(g); of != "" {
			fix = generatedFix(of, t.Namespace, t.Target)
		}
		return nil, fmt.Errorf("%w %s: the group has no such target in spec.targets: it has %s%s", ErrTarget, t, some(targetNames(g)), fix)
	}
	return []place{{g, i}}, nil
}

func targetNames(g *v1alpha1.TargetGroup) []string {
	if len(g.Spec.Targets) == 0 {
		return []string{"none"}
	}
	var out []string
	for i := range g.Spec.Targets {
		out = append(out, g.Spec.Targets[i].Name)
	}
	return out
}

// look notes how the targets are now.
func (d *Drain) look(places []place) {
	d.Groups, d.Targets = []string{}, []DrainTarget{}
	for _, p := range places {
		if name := p.group.Namespace + "/" + p.group.Name; !slices.Contains(d.Groups, name) {
			d.Groups = append(d.Groups, name)
		}
		t := &p.group.Spec.Targets[p.index]
		x := DrainTarget{Name: t.Name, Address: t.ServedAddress(), State: stateActive}
		if m := memberStatus(p.group, p.index); m != nil {
			x.State, x.OpenConnections, x.Message, x.Since = m.State, m.OpenConnections, m.Message, m.Since
		}
		d.Targets = append(d.Targets, x)
	}
}

// Judge says how far the drain that was planned has come, from the hub as it is now. A target that the hub has no more, or that
// stands in another group now, is not drained by that: its connections may run on.
func (d *Drain) Judge(o *Objects) {
	var places []place
	var told, lost []string
	for _, m := range d.marks {
		if p, ok := m.find(o); ok {
			places = append(places, p)
		} else {
			lost = append(lost, m.name)
		}
	}
	d.look(places)
	d.State, d.Message, d.Fix = DrainDrained, "", ""
	for _, p := range places {
		if text, fix := unfinished(o, p); text != "" {
			d.State, d.Fix = DrainDraining, fix
			told = append(told, text)
		}
	}
	if len(lost) > 0 {
		told = append(told, some(lost)+": gone from the hub, and nobody says whether connections there are still open")
	}
	switch {
	case d.State == DrainDraining:
		d.Message = some(told)
	case len(lost) > 0:
		d.State, d.Message = DrainUnknown, some(told)
		d.Fix = "Look for open connections on the host itself, or let the time for them pass, before you switch it off."
	default:
		d.Message = "every proxy has let go"
	}
}

// unfinished says what is waited for at a target, and what to do; empty: nothing.
func unfinished(o *Objects, p place) (text, fix string) {
	g := p.group
	name := g.Spec.Targets[p.index].Name
	m := memberStatus(g, p.index)
	switch {
	case !g.Drains(p.index) && generatedFrom(g) != "":
		return name + ": the manager has yet to have it drain", seeTo(g)
	case !g.Drains(p.index):
		return name + ": the agent has yet to write to the hub that it drains", "See to the tenant's agent: fairlead explain node " + name
	case !judged(g) || m == nil || m.State != stateDraining && m.State != stateDrained:
		return name + ": the manager has yet to say how far it is", "See to the manager: fairlead status"
	case m.State == stateDraining:
		text = fmt.Sprintf("%s: %s", name, count(int(m.OpenConnections), "open connection"))
		if m.Message != "" {
			text += "; " + strings.TrimSuffix(m.Message, ".")
		}
		return text, "Wait, or end the connections at the clients; each proxy cuts them once their time is over. A proxy that is silent for good is fenced: fairlead explain proxy NAME"
	}
	if text := o.leftover(p); text != "" {
		return text, seeTo(g)
	}
	return "", ""
}

// judged: the manager has spoken of the group as it is now. What it said before may be of an earlier drain.
func judged(g *v1alpha1.TargetGroup) bool {
	return condition(g.Status.Conditions, v1alpha1.ConditionHealthy, g.Generation) != nil
}

// openFor is a drain timeout for people.
func openFor(s string) string {
	d, err := time.ParseDuration(s)
	switch {
	case s == "":
		return "not visible"
	case err == nil && d == 0:
		return "no bound"
	case err == nil:
		return short(d)
	}
	return s
}
