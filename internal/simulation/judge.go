package simulation

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proof"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observe sees each change of the API server at its moment.
func (w *World) observe(k kind, old, now client.Object) {
	w.tell(k, old, now)
	w.forgoEnding(old, now)
	switch k {
	case leases:
		if l, ok := now.(*coordinationv1.Lease); ok {
			if last, ok := w.renewed[l.Name]; !ok || time.Since(last) >= proof.Silence {
				w.returned[l.Name] = versionOf(l)
			}
			w.renewed[l.Name] = time.Now()
			w.judgeRenewal(l)
		}
	case loadBalancers:
		if now == nil {
			return
		}
		l := now.(*clusterv1.LoadBalancer)
		before, _ := old.(*clusterv1.LoadBalancer)
		if programmed(l) && (before == nil || before.UID != l.UID || !programmed(before)) {
			w.result.Programmed++
			if w.server.stands(l.Namespace) { // Where nothing is taken any more, no exception can be named.
				w.judgeProgrammed(l)
			}
		}
	case proxies:
		px, ok := now.(*v1alpha1.Proxy)
		if before, had := old.(*v1alpha1.Proxy); ok && (!had || !equality.Semantic.DeepEqual(before.Status, px.Status)) {
			w.judgeStatus(px) // Else somebody else wrote, and repeats what it said.
		}
	case targetGroups:
		if g, ok := now.(*v1alpha1.TargetGroup); ok {
			before, _ := old.(*v1alpha1.TargetGroup)
			w.judgeDrained(before, g)
			w.judgePlaced(before, g)
		}
	case machineKind:
		w.judgeMachine(old, now)
	case namespaceKind:
		if now == nil {
			w.untellNamespace(old.GetName())
		}
	case clusterKind:
		if now == nil || now.GetDeletionTimestamp() != nil {
			w.clusterLeft = w.server.writes
		}
	case addresses:
		if now == nil {
			w.result.Freed++
			return // judgeServed sees who serves it still
		}
		w.judgeHolders(now.(*v1alpha1.Address))
	}
}

func programmed(l *clusterv1.LoadBalancer) bool {
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == l.Generation && l.DeletionTimestamp == nil
}

// judgeProgrammed asks each live proxy's plane.
func (w *World) judgeProgrammed(l *clusterv1.LoadBalancer) {
	if len(l.Status.Addresses) == 0 {
		w.broken("%s is Programmed without an address", keyOf(l))
	}
	for _, h := range w.hosts {
		if !w.counts(h) {
			continue
		}
		if g := h.plane.served[keyOf(l)]; g.uid == l.UID && g.n > l.Generation {
			continue // it is further
		} else if g.uid != l.UID || g.n < l.Generation {
			w.broken("%s (%s, generation %d) is Programmed, %s serves %v", keyOf(l), l.UID, l.Generation, h.name, g)
			continue
		}
		for _, a := range l.Status.Addresses {
			for _, p := range l.Spec.Ports {
				f := lb.FrontendID{Tenant: lb.TenantID(l.Namespace), LoadBalancer: l.Name, Address: netip.MustParseAddr(a.Value), Protocol: lb.TCP, Port: uint16(p.Port)}
				named := slices.ContainsFunc(l.Status.Ports, func(s clusterv1.PortStatus) bool { return s.Port == p.Port && s.Error != "" })
				if !named && !h.plane.has(f) {
					w.broken("%s (%s, generation %d) is Programmed, %s doesn't serve %s port %d", keyOf(l), l.UID, l.Generation, h.name, a.Value, p.Port)
				}
			}
		}
	}
}

// counts says that a proxy is live and has applied all once. One that joins or starts anew, or comes back
// after a silence, counts once the manager that writes has heard of that: nobody can wait for whom he doesn't know.
func (w *World) counts(h *host) bool {
	o := w.server.objects[proxies][types.NamespacedName{Name: h.name}]
	if !h.up || h.fenced || h.doubled || o == nil || !w.follows(h) || o.(*v1alpha1.Proxy).Spec.Fenced != nil || time.Since(w.renewed[h.name]) >= proof.Silence {
		return false
	}
	px := o.(*v1alpha1.Proxy)
	if px.Status.Boot != h.boot || px.Status.Phase != v1alpha1.ProxyServing {
		return false
	}
	return w.writer != nil && w.heard.serving[h.name] && w.heard.leases[h.name] >= w.returned[h.name]
}

// follows says that a host serves by the present hub's ledger. In namespaces that are still frozen it may serve something else, but must
// say so.
func (w *World) follows(h *host) bool {
	f := h.wanted.Frozen
	return h.aligned == w.incarnation || h.asked == w.incarnation && f != nil && f.Ledger && h.link.knows(w.incarnation)
}

// judgeHolders finds a port that two hold.
func (w *World) judgeHolders(a *v1alpha1.Address) {
	seen := map[string]string{}
	for _, h := range a.Spec.Holders {
		for _, p := range h.Ports {
			if other, ok := seen[p]; ok {
				w.broken("%s of %s is held by %s and %s", p, a.Name, other, h.Namespace+"/"+h.Name)
			}
			seen[p] = h.Namespace + "/" + h.Name
		}
	}
}

// judgeServed holds what each host serves against the ledger.
func (w *World) judgeServed() {
	w.judgeMembers()
	for _, h := range w.hosts {
		if px := w.proxyOf(h); !h.on || h.fenced || h.doubled || px != nil && px.Spec.Fenced != nil {
			continue
		}
		w.judgeKept(h)
		for _, l := range h.plane.program.Listeners {
			for _, f := range l.Frontends {
				if h.plane.refuses(f) {
					continue
				}
				a, _ := w.server.objects[addresses][types.NamespacedName{Name: ipam.AddressName(f.Address)}].(*v1alpha1.Address)
				if a == nil {
					if w.excusable(h, "", nil, "") {
						continue
					}
					w.broken("%s is free, and %s serves it for %s/%s", f.Address, h.name, f.Tenant, f.LoadBalancer)
					continue
				}
				for _, holder := range a.Spec.Holders {
					if holder.Namespace != string(f.Tenant) && slices.Contains(holder.Ports, fmt.Sprintf("%s/%d", f.Protocol, f.Port)) {
						if w.excusable(h, a.Name, &holder, fmt.Sprintf("%s/%d", f.Protocol, f.Port)) {
							continue
						}
						w.broken("%s of %s is held by %s/%s, and %s serves it for %s/%s", f.Socket(), a.Name, holder.Namespace, holder.Name, h.name, f.Tenant, f.LoadBalancer)
					}
				}
			}
		}
		for _, c := range h.plane.closing() {
			f := c.frontend
			if !w.server.stands(string(f.Tenant)) {
				h.plane.untold[c] = true // There is no place for a word about it.
			}
			if h.plane.untold[c] || w.excusable(h, "", nil, "") {
				continue
			}
			if w.server.objects[addresses][types.NamespacedName{Name: ipam.AddressName(f.Address)}] == nil {
				w.broken("%s is free, and %s has open connections of %s/%s", f.Address, h.name, f.Tenant, f.LoadBalancer)
			}
		}
	}
}
