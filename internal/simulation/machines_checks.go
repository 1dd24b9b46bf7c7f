package simulation

import (
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// boots has the server at a new address be up, or come up later.
func (w *World) boots(address string) {
	if w.Checks && w.n(3) == 0 {
		w.down[address] = true
	}
}

// drawChecks draws how a LoadBalancer checks its Machines, and what it does where all fail.
func (w *World) drawChecks(s *clusterv1.LoadBalancerSpec) {
	if !w.Checks {
		return
	}
	switch w.n(6) {
	case 0, 1, 2:
		s.HealthCheck = nil // as API servers are asked
	case 3, 4:
		s.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}
	}
	if w.n(3) == 0 {
		no := false
		s.FailOpen = &no
	}
}

// addressOf is where a Machine's server is; "": it has none yet.
func addressOf(m *unstructured.Unstructured) string {
	if all := machines.Read(m).Addresses; len(all) > 0 {
		return all[0].Value
	}
	return ""
}

// ail has a server die or come back, a host lose its way to one, or Cluster API's health check find one dead, and remediate it.
func (w *World) ail() {
	all := w.machines()
	if len(all) == 0 {
		return
	}
	m := all[w.n(len(all))]
	a := addressOf(m)
	if a == "" {
		return
	}
	switch x := w.n(8); {
	case x == 0:
		h, at := w.hosts[w.n(hosts)], netip.MustParseAddr(a)
		h.blind[at] = !h.blind[at]
		w.trace("%s reaches %s: %v", h.name, a, !h.blind[at])
	case w.down[a] && x == 1 && m.GetDeletionTimestamp() == nil:
		w.writeAsPerson(m, func(o *unstructured.Unstructured) { w.condition(o, "HealthCheckSucceeded", "False") })
		w.must(nil, w.server.remove(machineKind, keyOf(m), nil))
		w.trace("Machine %s is remediated", m.GetName())
	default:
		w.down[a] = !w.down[a]
		w.trace("the server of Machine %s at %s is up: %v", m.GetName(), a, !w.down[a])
	}
}

// mend ends what keeps hosts from servers, and has some of those be up that are not.
func (w *World) mend() {
	if !w.Checks {
		return
	}
	for _, h := range w.hosts {
		clear(h.blind)
	}
	for _, a := range sortedNames(w.down) {
		if w.n(2) == 0 {
			delete(w.down, a)
		}
	}
}

// fails says that a Machine fails its LoadBalancer's check, if it has one.
func (w *World) fails(m *unstructured.Unstructured, l *clusterv1.LoadBalancer) bool {
	return w.Checks && w.down[addressOf(m)] && (l.Spec.HealthCheck == nil || l.Spec.HealthCheck.Type != clusterv1.HealthCheckNone)
}

// swing has people disable a Machine as soon as a proxy sends to it again whose report still says that it has stopped, and have it back once it
// is disabled, where the tempers have that happen often.
func (w *World) swing() {
	if !w.Tempers.Swings || w.inside {
		return
	}
	for _, m := range w.machines() {
		name := controlNames[w.n(len(controlNames))]
		is := disabled(m)
		switch {
		case is && member.StateIn(m.GetAnnotations(), name) == member.Disabled, !is && w.contradicts(name, string(m.GetUID())), !is && w.n(100) == 0:
			w.writeAsPerson(m, annotated(clusterv1.DisabledAnnotation))
			w.trace("people: Machine %s disabled: %v", m.GetName(), !is)
			return
		}
	}
}

// contradicts says that a host sends to a Machine, and its report says that it has stopped.
func (w *World) contradicts(name, uid string) bool {
	return slices.ContainsFunc(w.hosts[:], func(h *host) bool {
		r, _ := w.server.objects[reports][types.NamespacedName{Namespace: operatorName, Name: h.name}].(*v1alpha1.ProxyReport)
		return h.on && r != nil && h.plane.sends(operatorName, name, uid) && slices.ContainsFunc(r.Members, func(m v1alpha1.ReportedMember) bool {
			return m.TargetUID == uid && m.State == v1alpha1.ReportedGone
		})
	})
}
