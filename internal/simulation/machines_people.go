package simulation

import (
	"maps"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxWaits are drawn for LoadBalancers: some pass while a proxy is out of reach, some don't.
var maxWaits = []time.Duration{20 * time.Second, 2 * time.Minute}

// drawMachines draws by what each LoadBalancer holds its Machines.
func (w *World) drawMachines() {
	w.hookTypes = map[string]clusterv1.HookType{}
	for _, name := range controlNames {
		w.hookTypes[name] = []clusterv1.HookType{clusterv1.HookPreDrain, clusterv1.HookPreDrain, clusterv1.HookPreDrain, clusterv1.HookPreTerminate, clusterv1.HookNone}[w.n(5)]
	}
}

// operate is what people, and what they run, do with Machines.
func (w *World) operate() {
	all := w.machines()
	c := w.server.objects[clusterKind][clusterKey]
	if c != nil && paused(c) && w.n(4) == 0 {
		w.writeAsPerson(c, annotated(clusterv1.PausedAnnotation))
		return
	}
	if len(w.mislaid) > 0 && w.n(3) == 0 {
		w.bringBack()
		return
	}
	if w.Checks && w.n(2) == 0 {
		w.ail()
		return
	}
	switch w.n(16) {
	case 0, 1, 2:
		w.addMachine(mostMachines)
		return
	case 3:
		name := controlNames[w.n(len(controlNames))]
		if w.n(4) == 0 {
			w.dropControlPlane(name)
		} else {
			w.wantControlPlane(name)
		}
		return
	case 4:
		if c != nil && (paused(c) || w.n(2) == 0) {
			w.writeAsPerson(c, annotated(clusterv1.PausedAnnotation))
			w.trace("Cluster paused, or no longer")
		}
		return
	case 5:
		switch {
		case c == nil:
			w.furnishCluster()
		case c.GetDeletionTimestamp() == nil && w.n(8) == 0:
			w.must(nil, w.server.remove(clusterKind, clusterKey, nil))
			w.trace("Cluster is deleted")
		}
		return
	}
	if len(all) < 2 {
		w.addMachine(mostMachines)
		return
	}
	m := all[w.n(len(all))]
	if paused(m) && w.n(2) == 0 {
		w.writeAsPerson(m, annotated(clusterv1.PausedAnnotation))
		return
	}
	switch w.n(10) {
	case 0, 1, 2:
		if m.GetDeletionTimestamp() == nil {
			w.must(nil, w.server.remove(machineKind, keyOf(m), nil))
		}
	case 3, 4:
		w.writeAsPerson(m, annotated(clusterv1.DisabledAnnotation))
	case 5:
		w.writeAsPerson(m, func(o *unstructured.Unstructured) {
			w.condition(o, "Updating", map[string]string{"": "True"}[conditionOf(o, "Updating")])
		})
	case 6:
		w.writeAsPerson(m, annotated(clusterv1.PausedAnnotation))
	case 7:
		if w.n(2) == 0 {
			w.mishap(m)
		}
	case 8:
		w.writeAsPerson(m, func(o *unstructured.Unstructured) {
			labels := maps.Clone(o.GetLabels())
			if labels[poolLabel] == "" {
				labels[poolLabel] = "api"
			} else {
				delete(labels, poolLabel)
			}
			o.SetLabels(labels)
		})
	case 9:
		w.writeAsPerson(m, w.address)
	}
}

// mishap is what goes wrong with a Machine: its hooks are taken off by hand, it is found to be dead, or let go by force.
func (w *World) mishap(m *unstructured.Unstructured) {
	switch w.n(3) {
	case 0:
		w.writeAsPerson(m, func(o *unstructured.Unstructured) {
			a := maps.Clone(o.GetAnnotations())
			for key, value := range a {
				if value == member.HookValue {
					delete(a, key)
				}
			}
			o.SetAnnotations(a)
		})
	case 1:
		w.writeAsPerson(m, func(o *unstructured.Unstructured) { w.condition(o, "HealthCheckSucceeded", "False") })
		if m.GetDeletionTimestamp() == nil {
			w.must(nil, w.server.remove(machineKind, keyOf(m), nil))
		}
	case 2:
		if m.GetDeletionTimestamp() == nil {
			w.must(nil, w.server.remove(machineKind, keyOf(m), nil))
			m = w.server.objects[machineKind][keyOf(m)].(*unstructured.Unstructured)
		}
		w.writeAsPerson(m, func(o *unstructured.Unstructured) { o.SetFinalizers(nil) })
		w.trace("Machine %s is let go by force", m.GetName())
	}
}

// tidy has people end what keeps Machines as they are: once faults have stopped nobody may wait for a person.
func (w *World) tidy() {
	if !w.Machines || !w.calm {
		return
	}
	w.furnishCluster()
	for len(w.mislaid) > 0 {
		w.bringBack()
	}
	if c := w.server.objects[clusterKind][clusterKey]; c != nil && paused(c) {
		w.writeAsPerson(c, annotated(clusterv1.PausedAnnotation))
	}
	stays := false
	for _, m := range w.machines() {
		if paused(m) {
			w.writeAsPerson(m, annotated(clusterv1.PausedAnnotation))
		}
		m = w.server.objects[machineKind][keyOf(m)].(*unstructured.Unstructured)
		if addresses, _, err := unstructured.NestedSlice(m.Object, "status", "addresses"); err != nil || len(addresses) == 0 {
			w.writeAsPerson(m, w.address)
		}
		stays = stays || m.GetDeletionTimestamp() == nil
	}
	switch {
	case w.orphaned():
		w.addMachine(mostMachines + 1) // all others may be held until it is there
	case !stays:
		w.addMachine(mostMachines)
	}
}

// orphaned says that a LoadBalancer waits for another Machine.
func (w *World) orphaned() bool { return slices.ContainsFunc(controlNames, w.orphanedOf) }

func paused(o interface{ GetAnnotations() map[string]string }) bool {
	_, is := o.GetAnnotations()[clusterv1.PausedAnnotation]
	return is
}

// warmUpMachines has control planes be there.
func (w *World) warmUpMachines() {
	if !w.Machines {
		return
	}
	for _, name := range controlNames[:1+w.n(2)] {
		w.wantControlPlane(name)
	}
	for range 1 + w.n(mostMachines) {
		w.addMachine(mostMachines)
	}
}

// actMachines is one thing that happens to Machines, at times. False: none did.
func (w *World) actMachines() bool {
	switch x := w.n(1000); {
	case x < 2*w.temper.users:
		w.operate()
		return true
	case x < 2*w.temper.users+20:
		return w.clusterAPIActs()
	case x < 2*w.temper.users+70:
		if m := w.mgrs[w.n(2)]; !m.stands() && (w.working == 0 || w.inside && m != w.writer) {
			before, had := w.writer, w.heard
			w.writer, w.heard = m, m.heard.clone()
			m.workMembers()
			w.writer, w.heard = before, had
		}
		return true
	}
	return false
}
