package simulation

import (
	"fairlead.dev/fairlead/internal/controller/kit"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newNamespace(name string) *metav1.PartialObjectMetadata {
	n := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes"}}}
	n.SetGroupVersionKind(kit.NamespaceKind)
	return n
}

// stands says that a namespace is there, and isn't ending.
func (s *server) stands(namespace string) bool {
	n := s.objects[namespaceKind][types.NamespacedName{Name: namespace}]
	return n != nil && n.GetDeletionTimestamp() == nil
}

// sweep does what Kubernetes does in namespaces that end, and makes those anew that are gone.
func (w *World) sweep() {
	for _, namespace := range namespaces {
		key := types.NamespacedName{Name: namespace}
		have := w.server.objects[namespaceKind][key]
		switch {
		case have == nil:
			if w.calm || w.n(3) == 0 {
				w.must(w.server.create(newNamespace(namespace)))
			}
			continue
		case have.GetDeletionTimestamp() == nil:
			continue
		}
		empty := true
		for _, k := range []kind{loadBalancers, targetGroups, reports, machineKind, clusterKind} {
			for _, o := range w.server.list(k) {
				if o.GetNamespace() == namespace {
					_ = w.server.remove(k, keyOf(o), nil)
					empty = false
				}
			}
		}
		if empty {
			gone := deepCopy(have)
			gone.SetFinalizers(nil)
			w.must(w.server.update(gone))
		}
	}
}
