package simulation

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"k8s.io/apimachinery/pkg/types"
)

// unfinished says what has not come to its end; empty: all has.
func (w *World) unfinished() string {
	if w.restoring {
		return "the hub is still being restored: " + w.settled()
	}
	live := 0
	for _, h := range w.hosts {
		if h.up && !h.fenced {
			live++
			px, _ := w.server.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
			if px == nil || px.Status.Boot != h.boot || px.Status.Phase != v1alpha1.ProxyServing {
				return h.name + " doesn't say that it serves"
			}
			if h.aligned != w.incarnation || hubChanged(px) {
				return h.name + " is still frozen"
			}
		}
	}
	book := w.ledger()
	for _, e := range book.All() {
		if e.Phase != ipam.Granted {
			return e.Name + " goes on being " + string(e.Phase)
		}
		for _, h := range e.Holders {
			if w.server.objects[loadBalancers][types.NamespacedName{Namespace: h.Namespace, Name: h.Name}] == nil {
				return fmt.Sprintf("%s is held by %s, which is gone", e.Name, h.Ref)
			}
		}
	}
	for _, a := range w.agents {
		if !w.server.stands(a.namespace) {
			return "namespace " + a.namespace + " doesn't end"
		}
		for _, name := range sortedNames(a.nodes) {
			if n := a.nodes[name]; n.goes && live > 0 {
				return fmt.Sprintf("node %s of %s isn't drained", n.uid, a.namespace)
			}
		}
		for _, o := range w.server.list(loadBalancers) {
			if _, wanted := a.services[o.GetName()]; o.GetNamespace() == a.namespace && !wanted {
				return keyOf(o).String() + " isn't wanted, and is still there"
			}
		}
		for _, name := range sortedNames(a.services) {
			key := types.NamespacedName{Namespace: a.namespace, Name: name}
			l, _ := w.server.objects[loadBalancers][key].(*clusterv1.LoadBalancer)
			if l == nil || l.DeletionTimestamp != nil {
				return key.String() + " is wanted, and isn't there"
			}
			held := book.HeldBy(ipam.Ref{Namespace: l.Namespace, Name: l.Name})
			d := book.Decide(needs(l), nil)
			switch {
			case len(held) == 0 && !d.Waits():
				return fmt.Sprintf("%s has no address, and could have %s", key, d.Steps[0].Entry.Name)
			case len(held) > 0 && !d.Keeps():
				return fmt.Sprintf("%s holds %s, and could have %v", key, held[0].Name, d.Steps)
			case len(held) > 0 && live > 0 && !programmed(l) && !w.refusedAll(l):
				return fmt.Sprintf("%s has %s, and isn't Programmed", key, held[0].Name)
			}
		}
	}
	return w.unfinishedMachines(live)
}

// refusedAll says that a host in use refuses all ports.
func (w *World) refusedAll(l *clusterv1.LoadBalancer) bool {
	for _, p := range l.Spec.Ports {
		if !slices.ContainsFunc(w.hosts[:], func(h *host) bool { return h.up && !h.fenced && h.refuse[uint16(p.Port)] }) {
			// It may lack the port, which another holds.
			if !slices.ContainsFunc(l.Status.Ports, func(s clusterv1.PortStatus) bool { return s.Port == p.Port && s.Error != "" }) {
				return false
			}
		}
	}
	return true
}
