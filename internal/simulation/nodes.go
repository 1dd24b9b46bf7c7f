package simulation

import (
	"fmt"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	groupName = "nodes"
	mostNodes = 3
	drained   = "drained"
)

// node is a target of a tenant.
type node struct {
	uid, address string
	drains       bool
	// goes: it is to be taken out once it is drained.
	goes bool
}

func (a *agent) addNode() {
	for i := range mostNodes {
		name := fmt.Sprintf("n%d", i)
		if a.nodes[name] == nil {
			a.made++
			a.nodes[name] = &node{uid: fmt.Sprintf("%s-%s-%d", a.namespace, name, a.made), address: fmt.Sprintf("10.0.%d.%d", i, 1+a.w.n(100))}
			return
		}
	}
}

// renumber changes a node's address.
func (a *agent) renumber() {
	for _, name := range sortedNames(a.nodes) {
		if a.w.n(2) == 0 {
			a.nodes[name].address = fmt.Sprintf("10.0.9.%d", 1+a.w.n(100))
			return
		}
	}
}

// administer drains nodes, has them back, takes them out and brings new ones.
func (a *agent) administer() {
	for _, name := range sortedNames(a.nodes) {
		n := a.nodes[name]
		if a.w.n(3) > 0 {
			continue
		}
		switch a.w.n(3) {
		case 0:
			n.drains = true
		case 1:
			n.drains, n.goes = true, true
		case 2:
			n.drains, n.goes = false, false
		}
		a.w.trace("node %s of %s drains %v, goes %v", n.uid, a.namespace, n.drains, n.goes)
		return
	}
	a.addNode()
}

func (a *agent) group() *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: groupName, Labels: map[string]string{"targets": groupName}}}
	for _, name := range sortedNames(a.nodes) {
		n := a.nodes[name]
		t := v1alpha1.Target{Name: name, UID: n.uid, Addresses: []string{n.address}}
		if n.drains {
			t.State = v1alpha1.TargetDraining
		}
		g.Spec.Targets = append(g.Spec.Targets, t)
	}
	return g
}

// stepGroup makes the TargetGroup what it should be. False: it is.
func (a *agent) stepGroup() bool {
	have := a.groups[groupName]
	if have == nil {
		_, err := a.link.create(a.group())
		return err == nil || a.w.n(2) == 0
	}
	for _, name := range sortedNames(a.nodes) {
		n := a.nodes[name]
		if n.goes && has(have, n.uid, v1alpha1.TargetDraining) && says(have, n.uid, drained) {
			delete(a.nodes, name)
		}
	}
	want := a.group()
	if equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return false
	}
	uid := have.UID
	_, _ = a.link.request(func() (client.Object, error) {
		o, err := a.w.server.get(targetGroups, types.NamespacedName{Namespace: a.namespace, Name: groupName})
		if err != nil {
			return nil, err
		}
		next := o.(*v1alpha1.TargetGroup).DeepCopy()
		next.UID, next.Spec = uid, want.Spec
		return a.w.server.update(next)
	})
	return true
}

func has(g *v1alpha1.TargetGroup, uid string, state v1alpha1.TargetState) bool {
	return slices.ContainsFunc(g.Spec.Targets, func(t v1alpha1.Target) bool { return t.UID == uid && t.State == state })
}

func says(g *v1alpha1.TargetGroup, uid, state string) bool {
	return slices.ContainsFunc(g.Status.Targets, func(m v1alpha1.MemberStatus) bool { return m.UID == uid && m.State == state })
}

// openTo counts a host's connections to a target. Those on an address that its namespace holds no more, and others
// do, don't count: nothing names who has them.
func (w *World) openTo(h *host, namespace, uid string) (n int64) {
	for c, open := range h.plane.conns {
		if string(c.frontend.Tenant) != namespace || c.member.UID != uid {
			continue
		}
		a, _ := w.server.objects[addresses][types.NamespacedName{Name: ipam.AddressName(c.frontend.Address)}].(*v1alpha1.Address)
		if a != nil && slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool { return h.Namespace == namespace }) {
			n += open
		}
	}
	return n
}

// judgeDrained asks each host of members that the status begins to call drained.
func (w *World) judgeDrained(before, g *v1alpha1.TargetGroup) {
	for _, m := range g.Status.Targets {
		if m.State != drained || !has(g, m.UID, v1alpha1.TargetDraining) || before != nil && before.UID == g.UID && says(before, m.UID, drained) {
			continue
		}
		w.result.Drained++
		for _, h := range w.hosts {
			if !h.on || h.fenced || w.change != nil && (w.writer == nil || !w.heard.known[h.name]) {
				continue
			}
			if n := w.openTo(h, g.Namespace, m.UID); n > 0 {
				w.broken("%s of %s/%s is drained, and %s has %d connections to it", m.UID, g.Namespace, g.Name, h.name, n)
			}
			if h.plane.sends(g.Namespace, m.UID) {
				w.broken("%s of %s/%s is drained, and %s sends it new connections", m.UID, g.Namespace, g.Name, h.name)
			}
		}
	}
}
