package simulation

import (
	"maps"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// machinesChange has what is known of Machines be of the hub that is to come. Its Cluster API looks at hooks anew.
func (w *World) machinesChange(next *server) {
	if !w.Machines {
		return
	}
	w.mislaid = nil
	clear(w.nodeDrained)
	w.clusterLeft = w.server.writes
	for _, o := range w.server.list(machineKind) {
		if w.meant(o.(*unstructured.Unstructured)) {
			w.meantUntil[o.GetUID()] = w.server.writes
		}
	}
	clear(w.unhooked)
	for _, o := range next.list(machineKind) {
		m := o.(*unstructured.Unstructured)
		w.judgeLeaving(m)
		if a := addressOf(m); w.Checks && a != "" && w.machine(m.GetUID()) == nil {
			w.down[a] = true // it was taken away since
		}
		for _, name := range controlNames {
			if p := (pair{name, string(m.GetUID())}); !member.Hooked(m.GetAnnotations(), name) {
				w.unhooked[p] = true // until it is there
			}
		}
	}
	for _, o := range next.list(targetGroups) {
		g := o.(*v1alpha1.TargetGroup)
		for _, t := range g.Spec.Targets {
			if name := madeFor(g); name != "" && t.State != v1alpha1.TargetDraining {
				delete(w.released, pair{name, t.UID}) // it is to be sent to again
			}
		}
	}
}

// mislay notes the Machines of the hub that was replaced: people have a backup of them. At times TargetGroups are in that, too, and come first.
func (w *World) mislay() {
	if !w.Machines {
		return
	}
	last := w.past[len(w.past)-1]
	for _, o := range last.list(machineKind) {
		if o.GetDeletionTimestamp() == nil && w.n(4) > 0 {
			w.mislaid = append(w.mislaid, o.(*unstructured.Unstructured))
		}
	}
	whole := w.n(2) == 0
	for _, o := range last.list(targetGroups) {
		if g := o.(*v1alpha1.TargetGroup); whole && madeFor(g) != "" {
			w.must(w.server.create(&v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name, Labels: maps.Clone(g.Labels)}, Spec: *g.Spec.DeepCopy()}))
		}
	}
}

// bringBack has people make one of the mislaid Machines again: it has another UID, and at times the annotations that it had.
func (w *World) bringBack() {
	m := w.mislaid[0].DeepCopy()
	w.mislaid = w.mislaid[1:]
	if !w.server.stands(operatorName) || w.server.objects[machineKind][keyOf(m)] != nil {
		return
	}
	m.SetResourceVersion("")
	if w.n(2) == 0 {
		m.SetAnnotations(nil)
	}
	w.must(w.server.create(m))
	w.trace("Machine %s is brought back", m.GetName())
}

// unknowable says that what a host sends to is not judged: the hub became another while it was out of reach, or has no Proxy of it.
func (w *World) unknowable(h *host) bool {
	return w.change != nil && h.aligned != w.incarnation && w.change.unknowable[h]
}
