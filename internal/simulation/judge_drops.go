package simulation

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/types"
)

// judgeDrops finds what a new process stops to serve although nothing has changed about it since before its start.
func (w *World) judgeDrops(h *host, before, after *lb.Program) {
	if h.doubled {
		return
	}
	still := map[lb.FrontendID]bool{}
	for _, l := range after.Listeners {
		for _, f := range l.Frontends {
			still[f] = true
		}
	}
	for _, l := range before.Listeners {
		for _, f := range l.Frontends {
			if !still[f] && w.unchanged(f, h.since) {
				w.broken("%s drops %s/%s port %d of %s, of which nothing has changed since its start", h.name, f.Tenant, f.LoadBalancer, f.Port, f.Address)
			}
		}
	}
}

// unchanged says that a frontend is wanted and granted, and was so at that version already.
func (w *World) unchanged(f lb.FrontendID, since int64) bool {
	l, _ := w.server.objects[loadBalancers][types.NamespacedName{Namespace: string(f.Tenant), Name: f.LoadBalancer}].(*clusterv1.LoadBalancer)
	a, _ := w.server.objects[addresses][types.NamespacedName{Name: ipam.AddressName(f.Address)}].(*v1alpha1.Address)
	if w.change != nil || l == nil || a == nil || l.DeletionTimestamp != nil || versionOf(a) > since || a.Spec.Phase != v1alpha1.AddressGranted {
		return false
	}
	for _, e := range w.server.log[loadBalancers] {
		if keyOf(e.object) == keyOf(l) && e.version > since && (e.gone || e.object.GetUID() != l.UID || e.object.GetGeneration() != l.Generation || e.object.GetDeletionTimestamp() != nil) {
			return false
		}
	}
	if l.Generation > 1 || versionOf(l) > since { // created before?
		created := int64(0)
		for _, e := range w.server.log[loadBalancers] {
			if e.object.GetUID() == l.UID && e.object.GetGeneration() == l.Generation {
				created = e.version
				break
			}
		}
		if created > since {
			return false
		}
	}
	holds := slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool {
		return h.Namespace == l.Namespace && h.Name == l.Name && slices.Contains(h.Ports, fmt.Sprintf("TCP/%d", f.Port))
	})
	return holds && slices.ContainsFunc(l.Spec.Ports, func(p clusterv1.Port) bool { return p.Port == int32(f.Port) })
}
