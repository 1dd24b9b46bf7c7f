package simulation

import (
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// judgeOpened finds a new connection to a member that fails its check: there must be none while another one doesn't, nor where the
// LoadBalancer sends nowhere when all do.
func (w *World) judgeOpened(h *host, c conn) {
	pool, g := poolOf(h.plane.program, c.frontend)
	if !w.Checks || pool == nil || g == nil || h.plane.verdicts.Of(pool.Check, c.member.Address) != lb.Unhealthy {
		return
	}
	for _, m := range g.Members {
		if !m.Draining && h.plane.verdicts.Of(pool.Check, m.Address) != lb.Unhealthy {
			w.broken("%s opens a connection of %s to %s, which fails its check, and %s doesn't", h.name, c.frontend.LoadBalancer, c.member.Address, m.Address)
			return
		}
	}
	key := types.NamespacedName{Namespace: string(c.frontend.Tenant), Name: c.frontend.LoadBalancer}
	l, _ := w.server.objects[loadBalancers][key].(*clusterv1.LoadBalancer)
	if l != nil && h.plane.served[key] == (generation{l.UID, l.Generation}) && l.Spec.FailOpen != nil && !*l.Spec.FailOpen {
		w.broken("%s opens a connection of %s to %s, which fails its check as all do, and it doesn't fail open", h.name, c.frontend.LoadBalancer, c.member.Address)
	}
}

// standing is what a manager knows of a LoadBalancer's members at a moment, as far as that is certain.
type standing struct {
	// sick targets are found unhealthy by each live proxy, well ones by none, and by one healthy.
	sick, well map[string]bool
	// lone are Machines that are deleted, and serve, while no other one does and another one is on its way.
	lone map[string]bool
}

// standing looks at them. l is the LoadBalancer as the manager has it. A TargetGroup that is being written counts as it was before; nil: none is.
func (w *World) standing(m *manager, name string, l *clusterv1.LoadBalancer, before *v1alpha1.TargetGroup) standing {
	s := standing{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	if !w.Checks {
		return s
	}
	proxies := m.fleet.Pool(proxyPool)
	serves := map[string]bool{}
	for _, o := range w.server.objects[targetGroups] {
		g := o.(*v1alpha1.TargetGroup)
		if before != nil && g.UID == before.UID {
			g = before
		}
		if madeFor(g) != name {
			continue
		}
		for i := range g.Spec.Targets {
			t := &g.Spec.Targets[i]
			if g.Drains(i) {
				continue
			}
			serves[t.UID] = true
			// All of the TargetGroup counts as new: who is healthy by that is it by what is known of when it changed, too.
			sight := member.Look(member.Asked{Removal: proof.Removal{
				Namespace: g.Namespace, GroupUID: string(g.UID), TargetUID: t.UID, Address: t.ServedAddress(), Version: proof.Version(max(0, versionOf(g))),
			}}, proxies)
			s.well[t.UID] = sight.Healthy > 0 && sight.Unhealthy == 0
			s.sick[t.UID] = sight.Live > 0 && sight.Unhealthy == sight.Live
		}
	}
	if c := w.server.objects[clusterKind][clusterKey]; l == nil || l.DeletionTimestamp != nil || c == nil || c.GetDeletionTimestamp() != nil {
		return s // all go
	}
	comes, other := false, false
	for _, o := range w.machines() {
		if uid := string(o.GetUID()); !w.meant(o) && conditionOf(o, "Updating") != "True" {
			comes = comes || !serves[uid] || s.sick[uid]
			other = other || serves[uid] && !s.sick[uid]
		}
	}
	for _, o := range w.machines() {
		uid := string(o.GetUID())
		since, known := w.leaves[o.GetUID()]
		if s.well[uid] && comes && !other && o.GetDeletionTimestamp() != nil && !disabled(o) && o.GetLabels()[poolLabel] != "" && known && time.Since(since.leaves) < machines.Held(member.Machines, l).MaxWait/2 {
			s.lone[uid] = true
		}
	}
	return s
}

// mayServe says that a target takes new connections, and isn't known to fail its check.
func (d *deciding) mayServe(t v1alpha1.Target) bool {
	return t.State != v1alpha1.TargetDraining && !(d.sick[t.UID] && d.m.w.standing(d.m, d.name, d.lb, nil).sick[t.UID])
}

// judgeState finds a Machine that is called what no proxy's word makes it.
func (w *World) judgeState(m *unstructured.Unstructured, name string, was, state member.State) bool {
	uid := string(m.GetUID())
	if was == state || !slices.Contains([]member.State{member.Active, member.Unhealthy}, state) {
		return false
	}
	now := w.standing(w.by.m, name, w.by.lb, nil)
	switch {
	case state == member.Active && w.by.sick[uid] && now.sick[uid]:
		w.broken("Machine %s is called active of %s, and each live proxy finds it unhealthy", m.GetName(), name)
	case state == member.Unhealthy && w.by.well[uid] && now.well[uid]:
		w.broken("Machine %s is called unhealthy of %s, and proxies find it healthy", m.GetName(), name)
	}
	return w.result.Broken != ""
}
