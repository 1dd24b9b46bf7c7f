package simulation

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fence is a person's word that a machine is gone for good.
func (w *World) fence(h *host) {
	o := w.server.objects[proxies][types.NamespacedName{Name: h.name}]
	if o == nil {
		h.fenced = true // nobody asks for it
		return
	}
	px := o.(*v1alpha1.Proxy).DeepCopy()
	px.Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "the machine is gone"}
	w.must(w.server.update(px))
	h.fenced = true
	w.trace("%s is fenced", h.name)
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
	w.furnishCluster()
}

// endNamespace deletes a tenant's namespace, as a person does with all that is in it.
func (w *World) endNamespace(namespace string) {
	if !w.server.stands(namespace) || w.n(3) > 0 {
		return
	}
	for _, a := range w.agents {
		if a.namespace == namespace {
			w.forgo(namespace, "")
			clear(a.services)
			clear(a.had)
		}
	}
	w.trace("namespace %s ends", namespace)
	_ = w.server.remove(namespaceKind, types.NamespacedName{Name: namespace}, nil)
}
