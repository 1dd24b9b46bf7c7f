package simulation

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Prefixes of Cluster API's hooks.
const (
	preDrainHook     = "pre-drain.delete.hook.machine.cluster.x-k8s.io/"
	preTerminateHook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/"
)

func held(o *unstructured.Unstructured, by string) bool {
	for key := range o.GetAnnotations() {
		if strings.HasPrefix(key, by) {
			return true
		}
	}
	return false
}

// clusterAPIActs is one step of Cluster API's controllers: a Machine that is deleted waits for its pre-drain hooks, has its node
// drained, waits for its pre-terminate hooks, and goes. What is paused waits. False: nothing was to be done.
func (w *World) clusterAPIActs() bool {
	c, _ := w.server.objects[clusterKind][clusterKey].(*unstructured.Unstructured)
	if !w.Machines || c != nil && paused(c) {
		return false
	}
	all := w.machines()
	leaving := c != nil && c.GetDeletionTimestamp() != nil
	for _, m := range all {
		switch {
		case leaving && m.GetDeletionTimestamp() == nil:
			w.must(nil, w.server.remove(machineKind, keyOf(m), nil))
			return true
		case m.GetDeletionTimestamp() == nil, paused(m), held(m, preDrainHook) && !w.nodeDrained[m.GetUID()]:
		case !w.nodeDrained[m.GetUID()]:
			w.nodeDrained[m.GetUID()] = true
			return true
		case !held(m, preTerminateHook):
			w.must(w.server.update(unfinalized(m)))
			w.result.Gone++
			return true
		}
	}
	if leaving && len(all) == 0 {
		w.must(w.server.update(unfinalized(c)))
		w.trace("Cluster is gone")
		return true
	}
	return false
}

func unfinalized(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	o.SetFinalizers(nil)
	return o
}

// machine of a UID; nil: it is gone.
func (w *World) machine(uid types.UID) *unstructured.Unstructured {
	for _, o := range w.server.objects[machineKind] {
		if o.GetUID() == uid {
			return o.(*unstructured.Unstructured)
		}
	}
	return nil
}
