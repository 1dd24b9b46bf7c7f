package simulation

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/targetgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// opened hears that a watch goes on where it ended. The guard is to look at the hub before the next write.
func (m *manager) opened(kind) { m.guard.Opened() }

func (m *manager) lost(kind) {}

// listed is a first list, or one after a gap: what differs is told.
func (m *manager) listed(k kind, all []client.Object, version string) {
	m.opened(k)
	if k == reports {
		list := make([]any, 0, len(all))
		for _, o := range all {
			list = append(list, o)
		}
		m.later(k, func() { _ = m.fleet.Reports().Replace(list, version) })
		return
	}
	first := !m.begun && len(m.cache[k]) == 0
	gone := map[types.NamespacedName]client.Object{}
	for key, o := range m.cache[k] {
		gone[key] = o
	}
	for _, o := range all {
		old := gone[keyOf(o)]
		delete(gone, keyOf(o))
		if old != nil && old.GetUID() != o.GetUID() {
			m.forget(k, old)
			old = nil
		}
		m.set(k, o, first)
	}
	for _, o := range all {
		delete(gone, keyOf(o))
	}
	for _, key := range sortedKeys(gone) {
		m.forget(k, gone[key])
	}
}

func (m *manager) happened(k kind, e event) {
	switch {
	case k == reports && e.gone:
		m.later(k, func() { _ = m.fleet.Reports().Delete(e.object) })
	case k == reports:
		m.later(k, func() { _ = m.fleet.Reports().Update(e.object) })
	case e.gone:
		m.forget(k, e.object)
	default:
		m.set(k, e.object, false)
	}
}

func (m *manager) bookmark(k kind, version string) {
	if k == reports {
		m.later(k, func() { _ = m.fleet.Reports().Bookmark(version) })
	}
}

// later has a handler told, in the order of its resource.
func (m *manager) later(k kind, f func()) { m.handlers[k] = append(m.handlers[k], f) }

// handle tells up to n handlers of a resource.
func (m *manager) handle(k kind, n int) bool {
	if len(m.handlers[k]) == 0 {
		return false
	}
	for ; n > 0 && len(m.handlers[k]) > 0; n-- {
		f := m.handlers[k][0]
		m.handlers[k] = m.handlers[k][1:]
		f()
	}
	return true
}

func (m *manager) set(k kind, o client.Object, first bool) {
	key := keyOf(o)
	before := m.cache[k][key]
	m.cache[k][key] = o
	m.later(k, func() {
		if before != nil && before.GetUID() == o.GetUID() && k != leases && k != proxies && !m.w.has(OldCaches) {
			m.guard.Follows(before, o)
		}
		m.wakeMembers(k, before, o)
		switch o := o.(type) {
		case *clusterv1.LoadBalancer:
			m.versions.Of(o)
			m.lbQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.TargetGroup, *v1alpha1.LoadBalancerClass:
			m.versions.Of(o)
			if k == targetGroups {
				m.tgQueue.AddAfter(reconcile.Request{NamespacedName: key}, targetgroup.Pause)
			}
			if first {
				return
			}
			for _, l := range sortedKeys(m.cache[loadBalancers]) {
				if l.Namespace == key.Namespace || key.Namespace == "" {
					m.lbQueue.Add(reconcile.Request{NamespacedName: l})
				}
			}
		case *v1alpha1.Tenant:
			m.epQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Address:
			m.keeper.Observe(o)
			m.adoption.Look()
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Proxy:
			m.fleet.SetProxy(m.heardOf(o))
			m.heard.known[o.Name] = true
			m.heard.frozen[o.Name] = o.Spec.Fenced == nil && hubChanged(o) && o.Status.Through.Addresses == ""
			m.heard.serving[o.Name] = o.Status.Phase == v1alpha1.ProxyServing
		case *coordinationv1.Lease:
			switch {
			case o.Name == electionLease:
				return
			case o.Namespace != v1alpha1.SystemNamespace: // an agent's
				m.epQueue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.Namespace}})
				return
			}
			m.heard.leases[o.Name] = versionOf(o)
			if first {
				m.fleet.ListLease(o)
			} else {
				m.fleet.SetLease(o)
			}
		}
	})
}

// heardOf is a Proxy as the fleet hears of it.
func (m *manager) heardOf(p *v1alpha1.Proxy) *v1alpha1.Proxy {
	if m.w.has(ReportsNotAwaited) {
		p = p.DeepCopy()
		p.Status.Reports = ""
	}
	if m.w.has(FrozenUnheard) {
		p = p.DeepCopy()
		p.Status.Conditions = nil
	}
	return p
}

func (m *manager) forget(k kind, o client.Object) {
	if m.cache[k][keyOf(o)] != nil {
		delete(m.cache[k], keyOf(o))
	}
	key := keyOf(o)
	m.later(k, func() {
		m.wakeMembers(k, nil, o)
		switch o := o.(type) {
		case *clusterv1.LoadBalancer:
			m.versions.Forget(o)
			m.lbQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.TargetGroup:
			m.groups.Forget(o)
		case *v1alpha1.LoadBalancerClass:
			m.versions.Forget(o)
		case *v1alpha1.Address:
			m.keeper.Forget(o)
			m.adoption.Look()
			m.addrs.Forget(o)
			m.adQueue.Add(reconcile.Request{NamespacedName: key})
		case *v1alpha1.Proxy:
			m.fleet.DeleteProxy(o)
			delete(m.heard.frozen, o.Name)
		case *coordinationv1.Lease:
			m.fleet.DeleteLease(o.Name)
		}
	})
}
