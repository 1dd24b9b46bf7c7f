package simulation

import (
	"fmt"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
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
