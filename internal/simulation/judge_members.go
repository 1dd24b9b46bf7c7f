package simulation

import (
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// membership is what the world knows of Machines behind LoadBalancers.
type membership struct {
	// hookTypes are by what each LoadBalancer holds its Machines.
	hookTypes map[string]clusterv1.HookType
	// nodeDrained are Machines whose node Cluster API has drained.
	nodeDrained map[types.UID]bool
	// addressed counts the addresses that Machines got.
	addressed int
	// down are the addresses whose server doesn't serve.
	down map[string]bool
	// released are those to which nobody may send: it was proven. unhooked are those whose hook is off by a way out, or by hand.
	released, unhooked map[pair]bool
	// leaves is since when a Machine is to leave.
	leaves map[types.UID]leaving
	// meantUntil counts the writes up to which somebody wanted a Machine out.
	meantUntil map[types.UID]int
	// clusterLeft counts those up to which the Cluster was being deleted, or missing.
	clusterLeft int
	// mislaid are Machines of a hub that was replaced, which people bring back.
	mislaid []*unstructured.Unstructured
	// by is who wrote, where that is a round of the members' reconciler.
	by *deciding
}

// pair is a Machine of a LoadBalancer.
type pair struct{ loadBalancer, uid string }

// leaving is since when a Machine is to leave, and since when it is not to any more; zero: it is.
type leaving struct{ leaves, stays time.Time }

func newMembership() membership {
	return membership{down: map[string]bool{}, nodeDrained: map[types.UID]bool{}, released: map[pair]bool{}, unhooked: map[pair]bool{}, leaves: map[types.UID]leaving{}, meantUntil: map[types.UID]int{}}
}

// decided notes, while a write runs, by what round it was decided.
func (m *manager) decided(write func() (client.Object, error)) func() (client.Object, error) {
	by := m.deciding
	if by == nil {
		return write
	}
	return func() (client.Object, error) {
		before := m.w.by
		m.w.by = by
		defer func() { m.w.by = before }()
		return write()
	}
}

// judgeMachine sees what is written to a Machine.
func (w *World) judgeMachine(old, now client.Object) {
	next, _ := now.(*unstructured.Unstructured)
	if next == nil {
		return
	}
	before, _ := old.(*unstructured.Unstructured)
	uid := string(next.GetUID())
	w.judgeLeaving(next)
	w.judgeStill(next.GetName())
	if before, ok := old.(*unstructured.Unstructured); ok && w.meant(before) {
		w.meantUntil[next.GetUID()] = w.server.writes
	}
	if before == nil || before.GetUID() != next.GetUID() {
		return
	}
	for _, name := range controlNames {
		p := pair{name, uid}
		had, has := member.Hooked(before.GetAnnotations(), name), member.Hooked(next.GetAnnotations(), name)
		was, state := member.StateIn(before.GetAnnotations(), name), member.StateIn(next.GetAnnotations(), name)
		out := state == member.Removed || state == member.Disabled
		switch {
		case has && !out:
			delete(w.unhooked, p)
			delete(w.released, p) // It is to be sent to again, or may be.
		case has:
			delete(w.unhooked, p)
		case had:
			w.unhooked[p] = true
		}
		switch {
		case w.by == nil: // people mean it
		case w.judgeState(next, name, was, state):
		case out && was != state:
			w.released[p] = true
			if had && !has {
				w.result.Lifted++
			}
			w.judgeReleased(p)
		case had && !has && !out && !w.wayOut(before, name):
			w.broken("the hook of %s is lifted from Machine %s, which is %q, and nothing says that it may be", name, next.GetName(), state)
		}
	}
}

// judgeLeaving notes since when a Machine is to leave. That it was not for less than a minute, nobody may have seen.
func (w *World) judgeLeaving(m *unstructured.Unstructured) {
	uid := m.GetUID()
	since, known := w.leaves[uid]
	switch leaves := m.GetDeletionTimestamp() != nil || m.GetLabels()[poolLabel] == ""; {
	case !leaves && known && since.stays.IsZero():
		since.stays = time.Now()
		w.leaves[uid] = since
	case leaves && known && time.Since(since.stays) < time.Minute:
		w.leaves[uid] = leaving{leaves: since.leaves}
	case leaves && (!known || !since.stays.IsZero()):
		w.leaves[uid] = leaving{leaves: time.Now()}
	}
}

// wayOut says that a hook may be lifted whoever sends.
func (w *World) wayOut(m *unstructured.Unstructured, name string) bool {
	l := w.by.lb
	if l == nil || l.DeletionTimestamp != nil {
		return true // It goes, or is gone.
	}
	deleting := m.GetDeletionTimestamp() != nil
	if c := w.server.objects[clusterKind][clusterKey]; c == nil || c.GetDeletionTimestamp() != nil || w.clusterLeft >= w.by.writes {
		return true
	}
	if deleting && conditionOf(m, "HealthCheckSucceeded") == "False" && !w.wellThroughout(string(m.GetUID())) {
		return true
	}
	shared := machines.Held(member.Machines, l)
	since, known := w.leaves[m.GetUID()]
	return known && time.Since(since.leaves) >= shared.MaxWait && (shared.Release || m.GetLabels()[poolLabel] == "") && !w.places(name, string(m.GetUID()))
}

// places says that a TargetGroup of a LoadBalancer has a target serve.
func (w *World) places(name, uid string) bool {
	for _, o := range w.server.objects[targetGroups] {
		if g := o.(*v1alpha1.TargetGroup); madeFor(g) == name && serving(g, uid) {
			return true
		}
	}
	return false
}

func serving(g *v1alpha1.TargetGroup, uid string) bool {
	return slices.ContainsFunc(g.Spec.Targets, func(t v1alpha1.Target) bool { return t.UID == uid && t.State != v1alpha1.TargetDraining })
}

// judgeReleased holds that nobody sends to a Machine, or has a connection of it open.
func (w *World) judgeReleased(p pair) {
	for _, h := range w.hosts {
		if !h.on || h.fenced || h.doubled || w.unknowable(h) {
			continue
		}
		if px := w.proxyOf(h); px != nil && px.Spec.Fenced != nil {
			continue
		}
		if n := w.openTo(h, operatorName, p.loadBalancer, p.uid); n > 0 {
			w.broken("%s has removed Machine %s, and %s has %d connections to it", p.loadBalancer, p.uid, h.name, n)
		}
		if h.plane.sends(operatorName, p.loadBalancer, p.uid) {
			w.broken("%s has removed Machine %s, and %s sends it new connections", p.loadBalancer, p.uid, h.name)
		}
	}
}

// judgePlaced sees what is written to a TargetGroup: who is drained, and who is to get traffic again.
func (w *World) judgePlaced(before, g *v1alpha1.TargetGroup) {
	name := madeFor(g)
	if name == "" {
		return
	}
	w.judgeStill(g.Name)
	w.judgeMislaid(name, before, g)
	w.disturb(name)
	for _, t := range g.Spec.Targets {
		m := w.machine(types.UID(t.UID))
		switch serves := t.State != v1alpha1.TargetDraining; {
		case serves && w.released[pair{name, t.UID}] && (m == nil || m.GetDeletionTimestamp() != nil):
			w.broken("%s has Machine %s serve again, whose hook was lifted", name, t.Name)
		case serves:
			delete(w.released, pair{name, t.UID})
		case before == nil || before.UID != g.UID || !serving(before, t.UID) || m == nil || w.by == nil:
		case w.inferred(m) && w.meantUntil[m.GetUID()] < w.by.writes && !slices.ContainsFunc(g.Spec.Targets, w.by.mayServe):
			w.broken("%s drains Machine %s, which is updated in place, and no other one serves", name, t.Name)
		case w.by.lone[t.UID] && w.standing(w.by.m, name, w.by.lb, before).lone[t.UID]:
			w.broken("%s drains Machine %s, the last active one, while another is on its way", name, t.Name)
		}
	}
}

// inferred says that nobody has asked for a Machine to be taken out, but that it is updated in place.
func (w *World) inferred(m *unstructured.Unstructured) bool {
	return conditionOf(m, "Updating") == "True" && !w.meant(m)
}

// meant says that somebody has asked for it.
func (w *World) meant(m *unstructured.Unstructured) bool {
	return m.GetDeletionTimestamp() != nil || disabled(m) || m.GetLabels()[poolLabel] == ""
}

func disabled(m *unstructured.Unstructured) bool {
	_, is := m.GetAnnotations()[clusterv1.DisabledAnnotation]
	return is
}

// judgeMembers holds each moment: nobody sends to whom was removed, nor to whom no hook holds.
func (w *World) judgeMembers() {
	if !w.Machines {
		return
	}
	for p := range w.released {
		w.judgeReleased(p)
	}
	for _, name := range controlNames {
		l, _ := w.server.objects[loadBalancers][controlKey(name)].(*clusterv1.LoadBalancer)
		if l == nil || l.DeletionTimestamp != nil || machines.HookType(l) == clusterv1.HookNone {
			continue
		}
		for _, o := range w.server.objects[machineKind] {
			p := pair{name, string(o.GetUID())}
			if w.unhooked[p] || member.Hooked(o.GetAnnotations(), name) {
				continue
			}
			for _, h := range w.hosts {
				if h.on && !h.fenced && !h.doubled && (w.change == nil || h.aligned == w.incarnation) && h.plane.sends(operatorName, name, p.uid) {
					w.broken("%s sends to Machine %s for %s, whose hook doesn't hold it", h.name, o.GetName(), name)
				}
			}
		}
	}
}
