package simulation

import (
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"k8s.io/apimachinery/pkg/types"
)

// openTo counts a host's connections to a target, of one LoadBalancer where that is named. Those on an address that its namespace holds no more, and others
// do, don't count: nothing names who has them.
func (w *World) openTo(h *host, namespace, loadBalancer, uid string) (n int64) {
	for c, open := range h.plane.conns {
		if string(c.frontend.Tenant) != namespace || c.member.UID != uid || loadBalancer != "" && c.frontend.LoadBalancer != loadBalancer {
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
			if !h.on || h.fenced || h.doubled || w.change != nil && (w.writer == nil || !w.heard.known[h.name]) {
				continue
			}
			if n := w.openTo(h, g.Namespace, madeFor(g), m.UID); n > 0 {
				w.broken("%s of %s/%s is drained, and %s has %d connections to it", m.UID, g.Namespace, g.Name, h.name, n)
			}
			if h.plane.sends(g.Namespace, madeFor(g), m.UID) {
				w.broken("%s of %s/%s is drained, and %s sends it new connections", m.UID, g.Namespace, g.Name, h.name)
			}
		}
	}
}

func has(g *v1alpha1.TargetGroup, uid string, state v1alpha1.TargetState) bool {
	return slices.ContainsFunc(g.Spec.Targets, func(t v1alpha1.Target) bool { return t.UID == uid && t.State == state })
}

func says(g *v1alpha1.TargetGroup, uid, state string) bool {
	return slices.ContainsFunc(g.Status.Targets, func(m v1alpha1.MemberStatus) bool { return m.UID == uid && m.State == state })
}
