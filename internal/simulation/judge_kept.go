package simulation

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unfiled says that nobody but the kernel knows of a frontend: the process that had it served ended before its file named it.
func (h *host) unfiled(f lb.FrontendID) bool { return !h.disk.frontends[f] && (!h.up || !h.fromHub) }

// keep notes what a host serves that is wanted, granted and proven: no change of the hub may take it away.
func (w *World) keep(h *host) {
	if !h.on || h.fenced || !h.remembers && h.aligned != w.incarnation {
		return
	}
	for _, f := range h.plane.frontends() {
		l, _ := w.server.objects[loadBalancers][types.NamespacedName{Namespace: string(f.Tenant), Name: f.LoadBalancer}].(*clusterv1.LoadBalancer)
		if l != nil && programmed(l) && !h.unfiled(f) && w.wants(f) && w.server.grants(f) && w.server.stands(l.Namespace) && !h.refuse[f.Port] {
			h.keeps[conn{frontend: f}] = true
			w.result.Kept++
		}
	}
}

// wants says that a user wants a frontend.
func (w *World) wants(f lb.FrontendID) bool {
	for _, a := range w.agents {
		spec, there := a.services[f.LoadBalancer]
		if a.namespace == string(f.Tenant) && there {
			return slices.ContainsFunc(spec.Ports, func(p clusterv1.Port) bool { return p.Port == int32(f.Port) }) &&
				(len(spec.Addresses) == 0 || slices.Contains(spec.Addresses, f.Address.String()))
		}
	}
	return false
}

// grants says that the ledger gives a frontend to whom it is of.
func (s *server) grants(f lb.FrontendID) bool {
	a, _ := s.objects[addresses][types.NamespacedName{Name: ipam.AddressName(f.Address)}].(*v1alpha1.Address)
	return a != nil && a.Spec.Phase == v1alpha1.AddressGranted && slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool {
		return h.Namespace == string(f.Tenant) && h.Name == f.LoadBalancer && slices.Contains(h.Ports, fmt.Sprintf("TCP/%d", f.Port))
	})
}

// forgo forgets what hosts keep of a service whose user wants something else of it now.
func (w *World) forgo(namespace, name string) {
	for _, h := range w.hosts {
		for c := range h.keeps {
			if string(c.frontend.Tenant) == namespace && (c.frontend.LoadBalancer == name || name == "") {
				delete(h.keeps, c)
			}
		}
	}
}

// judgeKept finds what the hub's change took away.
func (w *World) judgeKept(h *host) {
	for c := range h.keeps {
		if !h.plane.has(c.frontend) {
			f := c.frontend
			w.broken("%s serves %s/%s port %d of %s no more, for the hub has changed", h.name, f.Tenant, f.LoadBalancer, f.Port, f.Address)
		}
	}
}

// obeys forgets what the last word of the hub before this one has ended, of which the host has heard before it asked who the hub is.
func (h *host) obeys(before, next proxy.Wanted) {
	known := h.asked
	if before.Era != next.Era {
		known = h.before
	}
	if known == h.w.incarnation {
		return
	}
	for c := range h.keeps {
		if !h.plane.has(c.frontend) && h.w.past[known].ended(c.frontend) {
			delete(h.keeps, c)
		}
	}
}

// ended says that a hub has a frontend no more, or takes it away.
func (s *server) ended(f lb.FrontendID) bool {
	l, _ := s.objects[loadBalancers][types.NamespacedName{Namespace: string(f.Tenant), Name: f.LoadBalancer}].(*clusterv1.LoadBalancer)
	return l == nil || l.DeletionTimestamp != nil || !s.grants(f) ||
		!slices.ContainsFunc(l.Spec.Ports, func(p clusterv1.Port) bool { return p.Port == int32(f.Port) })
}

// forgoEnding forgets what goes with its namespace: it was ending when the copy was made, and the hub goes on with that.
func (w *World) forgoEnding(old, now client.Object) {
	switch o := old.(type) {
	case *clusterv1.LoadBalancer:
		if !w.server.stands(o.Namespace) && (now == nil || now.GetDeletionTimestamp() != nil) {
			w.forgo(o.Namespace, o.Name)
		}
	case *v1alpha1.Address:
		next, _ := now.(*v1alpha1.Address)
		for _, h := range o.Spec.Holders {
			goes := next == nil || next.Spec.Phase != v1alpha1.AddressGranted || !slices.ContainsFunc(next.Spec.Holders, func(n v1alpha1.Holder) bool { return n.Namespace == h.Namespace && n.Name == h.Name })
			if goes && !w.server.stands(h.Namespace) {
				w.forgo(h.Namespace, h.Name)
			}
		}
	}
}

// untellNamespace notes the connections that are open when their namespace is gone: no place is left for a word about them, though it be made
// anew before their frontend closes.
func (w *World) untellNamespace(namespace string) {
	for _, h := range w.hosts {
		for c := range h.plane.conns {
			if string(c.frontend.Tenant) == namespace {
				h.plane.untold[c] = true
			}
		}
	}
}

// excusable says that what h serves may be against the ledger: it has yet to learn that the hub has changed, or is frozen. holder is
// whom the ledger has instead; nil: nobody.
func (w *World) excusable(h *host, a string, holder *v1alpha1.Holder, port string) bool {
	if w.change == nil || h.aligned == w.incarnation {
		return false
	}
	if holder == nil || w.change.excused[h] {
		return true
	}
	// Whoever had it in the copy may have it still. Nobody gets it anew.
	return slices.ContainsFunc(w.change.copied[a], func(c v1alpha1.Holder) bool {
		return c.Namespace == holder.Namespace && c.Name == holder.Name && slices.Contains(c.Ports, port)
	})
}
