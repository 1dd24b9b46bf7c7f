package simulation

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// decides is what a manager's round begins with.
func (w *World) decides(m *manager, name string, l *clusterv1.LoadBalancer) *deciding {
	return &deciding{standing: w.standing(m, name, l, nil), name: name, lb: l, writes: w.server.writes, m: m, frozen: m.knowsFrozen(), orphaned: w.orphanedOf(name), found: m.finds(name)}
}

// knowsFrozen is a proxy of which the manager has heard that it serves on what it had before the hub changed; "": none.
func (m *manager) knowsFrozen() string {
	for _, name := range sortedNames(m.heard.frozen) {
		if m.heard.frozen[name] {
			return name
		}
	}
	return ""
}

// judgeStill finds who writes of members though he knew, when he began and knows now, that a proxy serves on what it had.
func (w *World) judgeStill(what string) {
	if by := w.by; by != nil && by.frozen != "" && by.m.knowsFrozen() != "" {
		w.broken("%s writes %s, and knows that %s serves on what it had before the hub changed", by.m.name, what, by.frozen)
	}
}

// judgeMislaid finds targets that are taken out though none of their Machines is there, and no other one: they may be yet to come back.
func (w *World) judgeMislaid(name string, before, g *v1alpha1.TargetGroup) {
	by := w.by
	if by == nil || !by.orphaned || before == nil || before.UID != g.UID || by.lb == nil || by.lb.DeletionTimestamp != nil {
		return
	}
	if c := w.server.objects[clusterKind][clusterKey]; c == nil || c.GetDeletionTimestamp() != nil || w.clusterLeft >= by.writes {
		return
	}
	if w.selectsAny() || w.there(before) {
		return
	}
	for _, t := range before.Spec.Targets {
		if t.State != v1alpha1.TargetDraining && !serving(g, t.UID) {
			w.broken("%s takes out %s, of whose targets no Machine is there", name, t.Name)
		}
	}
}

// selectsAny says that a Machine is selected, and stays.
func (w *World) selectsAny() bool {
	for _, o := range w.server.objects[machineKind] {
		if m := o.(*unstructured.Unstructured); m.GetDeletionTimestamp() == nil && m.GetLabels()[poolLabel] != "" {
			return true
		}
	}
	return false
}

// there says that the Machine of one of its targets is there.
func (w *World) there(g *v1alpha1.TargetGroup) bool {
	for _, t := range g.Spec.Targets {
		if w.machine(types.UID(t.UID)) != nil {
			return true
		}
	}
	return false
}

// orphanedOf says that a LoadBalancer sends to targets of whose Machines none is there, and no other one is selected and stays: it leaves
// all as it is until one comes.
func (w *World) orphanedOf(name string) bool {
	if l := w.server.objects[loadBalancers][controlKey(name)]; l == nil || l.GetDeletionTimestamp() != nil || w.selectsAny() {
		return false
	}
	serves := false
	for _, o := range w.server.objects[targetGroups] {
		if g := o.(*v1alpha1.TargetGroup); madeFor(g) == name {
			if w.there(g) {
				return false
			}
			for _, t := range g.Spec.Targets {
				serves = serves || t.State != v1alpha1.TargetDraining
			}
		}
	}
	return serves
}
