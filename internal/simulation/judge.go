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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.dev/fairlead/internal/controller/ledger"
)

// observe sees each change of the API server at its moment.
func (w *World) observe(k kind, old, now client.Object) {
	w.tell(k, old, now)
	switch k {
	case leases:
		if l, ok := now.(*coordinationv1.Lease); ok {
			if last, ok := w.renewed[l.Name]; !ok || time.Since(last) >= proof.Silence {
				w.returned[l.Name] = versionOf(l)
			}
			w.renewed[l.Name] = time.Now()
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
	case targetGroups:
		if g, ok := now.(*v1alpha1.TargetGroup); ok {
			before, _ := old.(*v1alpha1.TargetGroup)
			w.judgeDrained(before, g)
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
	if !h.up || h.fenced || o == nil || h.aligned != w.incarnation || o.(*v1alpha1.Proxy).Spec.Fenced != nil || time.Since(w.renewed[h.name]) >= proof.Silence {
		return false
	}
	px := o.(*v1alpha1.Proxy)
	if px.Status.Boot != h.boot || px.Status.Phase != v1alpha1.ProxyServing {
		return false
	}
	return w.writer != nil && w.heard.serving[h.name] && w.heard.leases[h.name] >= w.returned[h.name]
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
	for _, h := range w.hosts {
		if px := w.proxyOf(h); !h.on || h.fenced || px != nil && px.Spec.Fenced != nil {
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

// judgeDrops finds what a new process stops to serve although nothing has changed about it since before its start.
func (w *World) judgeDrops(h *host, before, after *lb.Program) {
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
	return ""
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

// ledger is what the API server holds.
func (w *World) ledger() *ipam.Ledger {
	book := ipam.New()
	book.SetPools(w.pools())
	for _, o := range w.server.list(addresses) {
		a := o.(*v1alpha1.Address)
		e := ipam.Entry{Name: a.Name, Address: netip.MustParseAddr(a.Spec.Address), Pool: a.Spec.Pool, ProxyPool: a.Spec.ProxyPool, Phase: ipam.Phase(a.Spec.Phase), Created: a.CreationTimestamp.Time}
		for _, h := range a.Spec.Holders {
			holder := ipam.Holder{Ref: ipam.Ref{Namespace: h.Namespace, Name: h.Name}}
			for _, s := range h.Ports {
				if p, err := ipam.ParsePort(s); err == nil {
					holder.Ports = append(holder.Ports, p)
				}
			}
			e.Holders = append(e.Holders, holder)
		}
		book.Set(e)
	}
	return book
}

func (w *World) pools() []ipam.Pool {
	return []ipam.Pool{{
		Name: poolName, Ranges: []ipam.Range{{First: addressAt(0), Last: addressAt(poolSize - 1)}}, Namespaces: labels.Everything(),
		Share: ipam.ShareAny, PerTenant: ipam.Unbounded, Requestable: true, Restoring: w.restoring,
	}}
}

func needs(l *clusterv1.LoadBalancer) ipam.Needs {
	n := ipam.Needs{
		Ref: ipam.Ref{Namespace: l.Namespace, Name: l.Name}, Created: l.CreationTimestamp.Time,
		Owner: ipam.Owner{Namespace: l.Namespace, Quota: ipam.NoQuota}, Ports: ledger.PortsOf(l.Spec.Ports),
		Pools: []string{poolName}, ProxyPool: proxyPool,
	}
	for _, s := range l.Spec.Addresses {
		n.Wanted = append(n.Wanted, netip.MustParseAddr(s))
	}
	return n
}

// tell traces a change.
func (w *World) tell(k kind, old, now client.Object) {
	if w.Log == nil {
		return
	}
	switch o := now.(type) {
	case nil:
		w.trace("%s %s is gone", k, keyOf(old))
	case *clusterv1.LoadBalancer:
		c := meta.FindStatusCondition(o.Status.Conditions, clusterv1.ConditionProgrammed)
		said := "-"
		if c != nil {
			said = fmt.Sprintf("%s@%d %s %s", c.Status, c.ObservedGeneration, c.Reason, c.Message)
		}
		for _, p := range o.Status.Ports {
			if p.Error != "" {
				said += fmt.Sprintf(" (%d %s)", p.Port, p.Error)
			}
		}
		w.trace("LB %s %s gen %d ports %s wants %v deleting %v fin %v: %s %v", keyOf(o), o.UID, o.Generation, describePorts(o), o.Spec.Addresses, o.DeletionTimestamp != nil, o.Finalizers, said, o.Status.Addresses)
	case *v1alpha1.Address:
		w.trace("Address %s %s %s %v", o.Name, o.UID, o.Spec.Phase, o.Spec.Holders)
	case *v1alpha1.Proxy:
		w.trace("Proxy %s %s %s through %v reports %s held %v fenced %v hub changed %v epoch %d seq %d", o.Name, o.Status.Boot, o.Status.Phase, o.Status.Through, o.Status.Reports, o.Status.Held, o.Spec.Fenced != nil, hubChanged(o), o.Status.Epoch, o.Status.Seq)
	case *v1alpha1.ProxyReport:
		w.trace("Report %s/%s %s refused %d addresses %v serves %v", o.Namespace, o.Name, o.Boot, len(o.Refused), o.Addresses, o.Serves)
	case *v1alpha1.TargetGroup:
		w.trace("TargetGroup %s %s %v: %v", keyOf(o), o.UID, o.Spec.Targets, o.Status.Targets)
	case *coordinationv1.Lease:
		w.trace("Lease %s %s %s", o.Name, o.Annotations[v1alpha1.AnnotationBoot], o.Annotations[v1alpha1.AnnotationThrough])
	default:
		w.trace("%s %s", k, keyOf(now))
	}
}
