package machines

import (
	"fmt"
	"slices"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
)

// Targets calls each with all that the TargetGroups name, and where.
func (f *Facts) Targets(each func(g *Group, at int)) {
	for i := range f.Groups {
		if o := f.Groups[i].Object; o != nil {
			for at := range o.Spec.Targets {
				each(&f.Groups[i], at)
			}
		}
	}
}

// Noted is the Cluster whose Machines the targets are, as their TargetGroups have it; "": none has. placed counts the targets.
func (f *Facts) Noted() (cluster string, placed int) {
	f.Targets(func(g *Group, _ int) {
		placed++
		if cluster == "" {
			cluster = g.Object.Labels[v1alpha1.LabelCluster]
		}
	})
	return cluster, placed
}

// Serving are the UIDs of the targets that take new connections.
func (f *Facts) Serving() map[string]bool {
	out := map[string]bool{}
	f.Targets(func(g *Group, at int) {
		if !g.Object.Drains(at) {
			out[g.Object.Spec.Targets[at].UID] = true
		}
	})
	return out
}

func (f *Facts) listed() map[string]bool {
	out := map[string]bool{}
	for i := range f.Machines {
		out[f.Machines[i].UID] = true
	}
	return out
}

// stays says that a Machine is the LoadBalancer's, and isn't being deleted.
func (f *Facts) stays(m *Machine) bool { return !m.Deleting && f.Selects(m) }

// Missing says why all targets are left as they are, though none of their Machines is there: it is more likely that they are yet to
// come back than that all went at once, and a hook would have had Machines drain first. "": some is there, or nothing serves.
func Missing(f Facts) string {
	there := f.listed()
	var missing []string
	found := f.Shared.ClusterLeaving || slices.ContainsFunc(f.Machines, func(m Machine) bool { return f.stays(&m) })
	f.Targets(func(g *Group, at int) {
		t := &g.Object.Spec.Targets[at]
		found = found || there[t.UID]
		if !g.Object.Drains(at) {
			missing = append(missing, t.Name)
		}
	})
	if found || len(missing) == 0 {
		return ""
	}
	l := f.LoadBalancer
	return fmt.Sprintf("targets serve, and none of their %ss is there, as of %s: bring them back; or, if they are gone for good, make others, or delete TargetGroup %s", f.Noun(), missing[0], GroupName(l.Name, 0))
}

// lost are the targets that stay though their Machine is not there, as where it was let go by force, or is yet to come back
// from a backup with another UID. One that serves does so while no other target is found healthy and one may come, and while a
// Machine of its name waits for its hook; then it drains. It goes when proxies have stopped, or after maxWait, or with its
// Cluster, or when a Machine of its name takes its place.
func (p *Plan) lost(f Facts) []member.Resolved {
	there := f.listed()
	serves, comes := false, false
	placing, waiting := map[string]bool{}, map[string]bool{}
	for i := range p.Members {
		x := &p.Members[i]
		serves = serves || x.Seen.Placed == v1alpha1.TargetServing && x.Seen.Sight.Healthy > 0
		comes = comes || f.stays(x.Machine)
		placing[x.Machine.Name] = placing[x.Machine.Name] || x.Want != member.Absent
		waiting[x.Machine.Name] = waiting[x.Machine.Name] || f.stays(x.Machine)
	}
	var out []member.Resolved
	f.Targets(func(g *Group, at int) {
		t := &g.Object.Spec.Targets[at]
		if there[t.UID] || placing[t.Name] {
			return
		}
		r := member.Resolved{Name: t.Name, UID: t.UID, Zone: t.Zone, State: v1alpha1.TargetDraining, Ready: t.Ready}
		switch {
		case g.Object.Drains(at):
			if f.Shared.ClusterLeaving || f.Waited(t.UID) >= f.Shared.MaxWait || g.Seen(at).Gone {
				return
			}
		case !f.Shared.ClusterLeaving && (waiting[t.Name] || comes && !serves):
			r.State = v1alpha1.TargetServing
		}
		out = append(out, r)
	})
	return out
}

// Kept says that a Machine was the LoadBalancer's target, and not to leave, when its state was last noted.
func (f *Facts) Kept(m *Machine) bool {
	switch f.Kind.StateIn(m.Annotations, f.Key()) {
	case "", member.Removing, member.Removed:
		return false
	}
	return true
}
