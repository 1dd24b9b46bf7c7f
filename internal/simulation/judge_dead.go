package simulation

import (
	"context"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
)

// finding is a target as its TargetGroup had it.
type finding struct {
	group *v1alpha1.TargetGroup
	at    int
}

// finds are the Machines of a LoadBalancer, by their UIDs, of which a manager knows that a live proxy sends to them and finds them well.
func (m *manager) finds(name string) map[string]finding {
	out := map[string]finding{}
	for _, o := range m.w.server.list(targetGroups) {
		g := o.(*v1alpha1.TargetGroup)
		if madeFor(g) != name {
			continue
		}
		for at := range g.Spec.Targets {
			if x := (finding{g, at}); m.confirms(x) {
				out[g.Spec.Targets[at].UID] = x
			}
		}
	}
	return out
}

// confirms says that it is so yet. Where hubs change nobody knows.
func (m *manager) confirms(x finding) bool {
	if m.w.change != nil {
		return false
	}
	all, err := m.asked(context.Background(), x.group)
	if err != nil {
		return false
	}
	t := &x.group.Spec.Targets[x.at]
	return member.Look(member.Asked{Removal: proof.Removal{
		Namespace: x.group.Namespace, GroupUID: string(x.group.UID), TargetUID: t.UID, Address: t.ServedAddress(), Version: proof.Version(versionOf(x.group)),
	}}, all).Healthy > 0
}

// disturb notes that another than the round that writes has changed a TargetGroup: what other rounds found of it may be of another time.
func (w *World) disturb(name string) {
	for _, m := range w.mgrs {
		if d := m.deciding; d != nil && d != w.by && d.name == name {
			d.found = nil
		}
	}
}

// wellThroughout says that the round which writes knew, from its beginning, that a live proxy finds a Machine well: then it doesn't matter who
// calls the Machine dead.
func (w *World) wellThroughout(uid string) bool {
	x, was := w.by.found[uid]
	return was && w.by.m.confirms(x)
}
