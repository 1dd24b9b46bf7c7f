package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// change is what the world knows of a hub that became another.
type change struct {
	// copied are the holders in the copy that it was restored from, by Address.
	copied map[string][]v1alpha1.Holder
	// excused hosts can't be known of: they were out of reach, and nobody said that the hub is being restored.
	excused map[*host]bool
}

// copyOf is the server as it stands.
func (s *server) copyOf() *server {
	c := *s
	for k := range s.objects {
		c.objects[k] = maps.Clone(s.objects[k])
		c.log[k] = slices.Clone(s.log[k])
	}
	c.refusing = map[string]bool{}
	return &c
}

// backUp keeps a copy of the hub.
func (w *World) backUp() {
	w.backup, w.backedUp = w.server.copyOf(), time.Now()
	w.trace("the hub is backed up")
}

// unwritten says that a host has heard of what the copy lacks, and written nothing since: a hub that lost only that, and
// whose versions have grown past it again, looks like the one that it was. It takes a copy that is younger than the
// proxy's last write, and the product's proxies write within seconds of what they hear.
func (w *World) unwritten(h *host) bool {
	px, _ := w.backup.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
	if !h.made || px == nil {
		return false
	}
	heard, seq := int64(0), h.top
	if h.up {
		for _, k := range h.link.kinds {
			heard = max(heard, h.link.at[k])
		}
	} else if good := h.disk.good; good != nil {
		seq = good.Memory.Seq
		for _, v := range good.Through {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				heard = max(heard, n)
			}
		}
	}
	return heard > w.backup.version && px.Status.Seq >= seq
}

// restore puts the hub back to the copy.
func (w *World) restore() {
	if slices.ContainsFunc(w.hosts[:], w.unwritten) {
		return
	}
	bump := w.n(2) == 0
	next := w.backup.copyOf()
	next.writes = w.server.writes
	if bump {
		next.version += 100_000
	}
	for k := range next.floor {
		next.floor[k] = next.version // API servers that start know nothing of what was before
	}
	w.trace("the hub is restored to v%d, versions bumped: %v", next.version, bump)
	w.become(next)
}

// replace puts another hub in the place of this one, with what people make in it.
func (w *World) replace() {
	next := newServer()
	next.uid = fmt.Sprintf("hub-%d", w.incarnation+1)
	next.version = int64(w.n(int(2 * w.server.version)))
	for k := range next.floor {
		next.floor[k] = next.version
	}
	next.writes = w.server.writes
	w.trace("the hub is replaced, at v%d", next.version)
	w.become(next)
	w.furnish()
}

// become is the moment of it.
func (w *World) become(next *server) {
	for _, h := range w.hosts {
		w.keep(h)
		for _, c := range h.plane.sorted() {
			if h.unfiled() || !h.plane.has(c.frontend) {
				h.plane.untold[c] = true // Nobody says in the new hub that connections of what is no more are open.
			}
		}
	}
	w.incarnation++
	w.result.Changed++
	next.observe = w.observe
	w.server, w.delayed, w.backup = next, nil, nil
	w.renewed, w.returned = map[string]time.Time{}, map[string]int64{}
	careful := w.n(2) == 0
	w.change = &change{copied: map[string][]v1alpha1.Holder{}, excused: map[*host]bool{}}
	for _, o := range next.list(addresses) {
		w.change.copied[o.GetName()] = o.(*v1alpha1.Address).Spec.Holders
	}
	for _, h := range w.hosts {
		if h.on && !h.fenced && !careful && (!h.up || h.link.cut || next.objects[proxies][types.NamespacedName{Name: h.name}] == nil) {
			w.change.excused[h] = true
		}
	}
	if careful {
		w.restoring = true
		w.poolsChange()
	}
	for _, l := range w.links() {
		l.broken()
	}
	for _, m := range w.mgrs {
		w.restart(m, false)
	}
	for _, a := range w.agents {
		if a.namespace != tenantName {
			a.link.anew() // It is no agent's, but that of people, who look.
		}
	}
}

// poolsChange tells managers what a person wrote to the pools.
func (w *World) poolsChange() {
	w.trace("restoring: %v", w.restoring)
	for _, m := range w.mgrs {
		m.keeper.SetPools(w.pools())
		m.adoption.Look()
		for _, key := range sortedKeys(m.cache[addresses]) {
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		}
	}
}

// furnish makes what people make in a hub.
func (w *World) furnish() {
	w.must(w.server.create(&v1alpha1.LoadBalancerClass{
		ObjectMeta: metav1.ObjectMeta{Name: className},
		Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: proxyPool}, AddressPools: []string{poolName}},
	}))
	for _, ns := range namespaces {
		w.must(w.server.create(newNamespace(ns)))
	}
	w.must(w.server.create(&v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: tenantName}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}},
	}))
}

// persons do by and by what only they can: they say that a restore is over, fence again a machine that is gone for good, of which an
// older copy knows nothing, take out a manager's fence from a proxy that obeyed it, and let go of addresses that are kept for
// LoadBalancers which nobody wants any more.
func (w *World) persons() {
	if w.restoring && w.settled() == "" {
		w.restoring = false
		w.poolsChange()
	}
	w.decide()
	for _, h := range w.hosts {
		if px := w.proxyOf(h); h.fenced && px != nil && px.Spec.Fenced == nil && (w.calm || w.n(3) == 0) {
			w.fence(h)
		}
		if px := w.proxyOf(h); px != nil && px.Spec.Fenced != nil && !h.fenced && !w.frozen() && h.up && h.plane.idle() && (w.calm || w.n(3) == 0) {
			px = px.DeepCopy()
			px.Spec.Fenced = nil
			w.must(w.server.update(px))
			h.start()
			w.trace("%s is no longer fenced, and starts as %s", h.name, h.boot)
		}
	}
	if !w.calm || w.restoring {
		return
	}
	for _, o := range w.server.list(addresses) {
		a := o.(*v1alpha1.Address)
		if until, held := a.Annotations[v1alpha1.AnnotationHeldUntil]; held && !w.holdersWanted(a) {
			at, err := time.Parse(time.RFC3339, until)
			if err == nil && at.After(time.Now()) {
				a = a.DeepCopy()
				a.Annotations[v1alpha1.AnnotationHeldUntil] = time.Now().UTC().Add(-time.Second).Format(time.RFC3339)
				w.must(w.server.update(a))
				w.trace("%s is let go of", a.Name)
			}
		}
	}
}

// frozen says that a proxy serves on what it had before the hub changed.
func (w *World) frozen() bool {
	return slices.ContainsFunc(w.hosts[:], func(h *host) bool {
		px := w.proxyOf(h)
		return h.up && !h.fenced && (px == nil || px.Spec.Fenced == nil) && h.view.Inbox.Frozen() != nil
	})
}

// decide fences, where a manager says that proxies contradict each other, those that follow the hub: what runs since before it
// changed is what is wanted.
func (w *World) decide() {
	if !w.calm || !slices.ContainsFunc(w.mgrs[:], func(m *manager) bool { return m.leads && m.keeper.Disputed() }) {
		return
	}
	for _, h := range w.hosts {
		if px := w.proxyOf(h); px != nil && h.up && px.Spec.Fenced == nil && h.aligned == w.incarnation {
			px = px.DeepCopy()
			px.Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "it contradicts what runs"}
			w.must(w.server.update(px))
			w.trace("%s is fenced, for it contradicts what runs", h.name)
		}
	}
}

// holdersWanted says that somebody wants one of the LoadBalancers that hold an Address and are missing.
func (w *World) holdersWanted(a *v1alpha1.Address) bool {
	return slices.ContainsFunc(a.Spec.Holders, func(h v1alpha1.Holder) bool {
		return slices.ContainsFunc(w.agents, func(g *agent) bool {
			_, wanted := g.services[h.Name]
			return wanted && w.server.objects[loadBalancers][types.NamespacedName{Namespace: h.Namespace, Name: h.Name}] == nil && g.namespace == h.Namespace
		})
	})
}

func (w *World) proxyOf(h *host) *v1alpha1.Proxy {
	px, _ := w.server.objects[proxies][types.NamespacedName{Name: h.name}].(*v1alpha1.Proxy)
	return px
}

// settled says who has yet to follow the hub that became another; empty: nobody.
func (w *World) settled() string {
	for _, h := range w.hosts {
		if h.fenced || !h.made {
			continue
		}
		px := w.proxyOf(h)
		switch {
		case !h.up:
			return h.name + " is down"
		case h.aligned != w.incarnation:
			return h.name + " doesn't follow the hub"
		case px == nil || px.Status.Boot != h.boot || px.Status.Phase != v1alpha1.ProxyServing || hubChanged(px):
			return h.name + " doesn't say that it follows the hub"
		}
	}
	return ""
}

func hubChanged(px *v1alpha1.Proxy) bool {
	for _, c := range px.Status.Conditions {
		if c.Type == v1alpha1.ConditionHubChanged && c.Status == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// unfiled says that nobody but the kernel knows of what is served: the process that had it served ended before its first file.
func (h *host) unfiled() bool { return h.disk.good == nil && (!h.up || !h.fromHub) }

// keep notes what a host serves that is wanted, granted and proven: no change of the hub may take it away.
func (w *World) keep(h *host) {
	if !h.on || h.fenced || !h.remembers && h.aligned != w.incarnation {
		return
	}
	if h.unfiled() {
		return
	}
	for _, f := range h.plane.frontends() {
		l, _ := w.server.objects[loadBalancers][types.NamespacedName{Namespace: string(f.Tenant), Name: f.LoadBalancer}].(*clusterv1.LoadBalancer)
		if l != nil && programmed(l) && w.wants(f) && w.grants(f) && w.server.stands(l.Namespace) && !h.refuse[f.Port] {
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
func (w *World) grants(f lb.FrontendID) bool {
	a, _ := w.server.objects[addresses][types.NamespacedName{Name: ipam.AddressName(f.Address)}].(*v1alpha1.Address)
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
