package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/controller/endpoint"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/machines"
	rules "fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// problem is what keeps the targets from being followed, or some of them; a reason of the API, cause and fix.
type problem struct{ reason, message string }

// view is what one round sees.
type view struct {
	machines.Facts
	// problem; nil: there is none.
	problem *problem
	// witness of what becomes of the members.
	witness witness
	// objects that targets are made from, by their UIDs; they may be shared with the cache.
	objects map[string]client.Object
	// label: the Cluster calls this LoadBalancer its control plane's, whose Machines are to be labelled so.
	label bool
}

// source is whom a round reads Machines or Nodes, and TargetGroups from. What is written is decided by both as they are: a cache that lacks that a
// target serves again would have its hook lifted for what was said before.
type source struct{ machines, groups client.Reader }

// stop has all stand still, and says why. What comes first is said.
func (v *view) stop(reason, message string) {
	if v.Shared.Frozen == "" {
		v.Shared.Frozen, v.problem = message, &problem{reason, message}
	}
}

// view reads what there is; objects of the kind and TargetGroups from whom it is told.
func (r *Reconciler) view(ctx context.Context, l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, kind rules.Kind, from source) (*view, error) {
	v := &view{Facts: machines.Facts{LoadBalancer: l, Kind: kind, Shared: machines.Held(kind, l), Selects: func(*machines.Machine) bool { return false }}}
	v.Unchecked = class != nil && class.Spec.Service != nil
	v.Asks = class != nil && class.Spec.HooksOnly != nil
	var unknown *problem
	v.witness, unknown = r.witness(l, class, func(uid string) (map[string]string, bool) {
		if o := v.objects[uid]; o != nil {
			return o.GetAnnotations(), true
		}
		return nil, false
	})
	if r.watched(kind).Empty() {
		unread := r.unread(kind)
		v.stop(unread.reason, unread.message)
	} else {
		objects, err := r.list(ctx, from.machines, kind, l.Namespace)
		if err != nil {
			return nil, err
		}
		v.objects = map[string]client.Object{}
		for i := range objects {
			v.Machines = append(v.Machines, objects[i].Machine)
			v.objects[objects[i].UID] = objects[i].Object
		}
	}
	var strays []string
	var err error
	if v.Groups, strays, err = r.groups(ctx, from.groups, l, v.witness); err != nil {
		return nil, err
	}
	if len(strays) > 0 {
		v.stop(clusterv1.ReasonStandsStill, fmt.Sprintf("TargetGroup %s has the label %s, and wasn't made from %ss, so that proxies send to its targets too: take the label or the TargetGroup away", strays[0], v1alpha1.LabelFor, kind))
	}
	if unknown != nil {
		v.stop(unknown.reason, unknown.message)
	}
	if kind == rules.Nodes {
		v.ofNodes()
	} else if err := r.ofCluster(ctx, v); err != nil {
		return nil, err
	}
	if why := machines.Missing(v.Facts); why != "" {
		v.stop(clusterv1.ReasonStandsStill, why)
	}
	v.Waited = r.waited(client.ObjectKeyFromObject(l), v)
	return v, nil
}

// ofNodes finds which Nodes are the LoadBalancer's targets.
func (v *view) ofNodes() {
	selector, invalid := v.Kind.Selector(v.LoadBalancer)
	if err := unknownKind(v.LoadBalancer); err != nil {
		invalid = err
	}
	v.Selects = func(m *machines.Machine) bool {
		return selector.Matches(labels.Set(m.Labels)) && !rules.Excluded(m.Labels)
	}
	if invalid != nil { // those that it had stay
		v.problem = cmp.Or(v.problem, &problem{clusterv1.ReasonInvalid, invalid.Error()})
		v.Selects = func(m *machines.Machine) bool { return v.Kept(m) && !rules.Excluded(m.Labels) }
	}
	if why := v.witness.still(); why != "" {
		v.stop(clusterv1.ReasonStandsStill, why)
	}
}

// ofCluster finds which Machines are the LoadBalancer's targets, and what becomes of their Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, v *view) (err error) {
	l := v.LoadBalancer
	noted, placed := v.Noted()
	selector, invalid := rules.Selector(l)
	if err := unknownKind(l); err != nil {
		selector, invalid = labels.Nothing(), err
	}
	cluster, foreign, wrong := machines.Cluster(l, selector, v.Machines, noted)
	v.Cluster = cluster
	v.Selects = func(m *machines.Machine) bool {
		return cluster != "" && m.Cluster() == cluster && selector.Matches(labels.Set(m.Labels))
	}
	switch {
	case invalid != nil && (cluster != "" || placed == 0):
		// Those that it had stay, and those that are being deleted are drained and let go as ever.
		v.problem = cmp.Or(v.problem, &problem{clusterv1.ReasonInvalid, invalid.Error()})
		v.Selects = func(m *machines.Machine) bool {
			return cluster != "" && m.Cluster() == cluster && v.Kept(m)
		}
	case invalid != nil:
		v.stop(clusterv1.ReasonInvalid, invalid.Error())
	case wrong != "":
		v.stop(clusterv1.ReasonForeignMachines, wrong)
	case cluster == "" && placed > 0:
		v.stop(clusterv1.ReasonStandsStill, "it has targets, none of their Machines is selected, and whose they are isn't noted: set spec.clusterName")
	}
	c := endpoint.Cluster{}
	if cluster != "" {
		if c, err = r.Clusters.Look(ctx, types.NamespacedName{Namespace: l.Namespace, Name: cluster}); err != nil {
			return err
		}
		switch {
		case !c.Found:
			v.stop(clusterv1.ReasonClusterNotFound, fmt.Sprintf("there is no Cluster %s in this namespace: create it, or name another one in spec.clusterName", cluster))
		case c.Still != "":
			v.stop(clusterv1.ReasonStandsStill, c.Still)
		}
	}
	v.Shared.ClusterLeaving = c.Leaving
	v.label = c.Named == l.Name && !c.Leaving
	if why := v.witness.still(); why != "" {
		v.stop(clusterv1.ReasonStandsStill, why)
	}
	if c.Unread != nil && v.problem == nil {
		v.problem = &problem{clusterv1.ReasonStandsStill, fmt.Sprintf("its targets are followed, but whether the control plane of Cluster %s is being deleted isn't known: %v", cluster, c.Unread)}
	}
	if len(foreign) > 0 && v.problem == nil {
		v.problem = &problem{clusterv1.ReasonForeignMachines, fmt.Sprintf("the selector selects Machines that are not of Cluster %s, and get no traffic: %s; mend spec.selector or spec.clusterName", cluster, kit.Some(foreign))}
	}
	return nil
}

// unlabelled says that a Machine is to get the label that the default selector selects it by.
func (v *view) unlabelled() bool {
	return v.Shared.Frozen == "" && slices.ContainsFunc(v.Machines, v.wantsLabel)
}

func (v *view) wantsLabel(m machines.Machine) bool {
	_, has := m.Labels[rules.NameLabel]
	return v.label && !has && m.Still() == "" && rules.WantsLabel(m.Labels, m.Deleting, v.Cluster, v.LoadBalancer.Name)
}

// generated are the TargetGroups that were made for a LoadBalancer, be it from Machines or Nodes, by their number; they are
// shared with the cache, if they are read from it.
// strays are the names of others that it sends to.
func (r *Reconciler) generated(ctx context.Context, from client.Reader, of types.NamespacedName) (groups map[int]*v1alpha1.TargetGroup, strays []string, err error) {
	list := &v1alpha1.TargetGroupList{}
	if err := from.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingLabels{v1alpha1.LabelFor: of.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing the TargetGroups of LoadBalancer %s: %w", of, err)
	}
	out := map[int]*v1alpha1.TargetGroup{}
	for i := range list.Items {
		g := &list.Items[i]
		if name, number, ok := machines.GroupOf(g.Name); ok && name == of.Name && generated(g) {
			out[number] = g
		} else {
			strays = append(strays, g.Name)
		}
	}
	slices.Sort(strays)
	return out, strays, nil
}

func generated(g *v1alpha1.TargetGroup) bool {
	return rules.KindOf(g.Labels[v1alpha1.LabelGeneratedFrom]) != ""
}

// groups are those as a Plan needs them, and the strays.
func (r *Reconciler) groups(ctx context.Context, from client.Reader, l *clusterv1.LoadBalancer, by witness) ([]machines.Group, []string, error) {
	of := client.ObjectKeyFromObject(l)
	all, strays, err := r.generated(ctx, from, of)
	if err != nil {
		return nil, nil, err
	}
	last := -1
	for number := range all {
		last = max(last, number)
	}
	out := make([]machines.Group, last+1)
	for number, g := range all {
		sees, err := by.sees(ctx, g, func(t *v1alpha1.Target) entry { return r.since(of, g, t) })
		if err != nil {
			return nil, nil, err
		}
		out[number] = machines.Group{Object: g, Sees: sees}
	}
	return out, strays, nil
}

// pin is one target of one TargetGroup.
type pin struct {
	of         types.NamespacedName
	group, uid string
}

type pinned struct {
	content string
	entry
	// last generation in which it was seen.
	last int64
	// quiet is since when no EndpointSlice has it ready though it drains; zero: one has, or it isn't known.
	quiet time.Time
}

// since is when a target was first seen as it stands in a TargetGroup now. Another target's change doesn't move it: what was
// said of this one holds.
func (r *Reconciler) since(of types.NamespacedName, g *v1alpha1.TargetGroup, t *v1alpha1.Target) entry {
	version := r.Versions.Of(g)
	content := string(t.State) + " " + strings.Join(t.Addresses, ",")
	r.mu.Lock()
	defer r.mu.Unlock()
	k := pin{of, string(g.UID), t.UID}
	p, ok := r.pins[k]
	if !ok || p.content != content || p.version > version || g.Generation > p.last+1 {
		p.entry, p.quiet = entry{version, g.Generation, r.Now()}, time.Time{} // what was between two generations that weren't seen one after the other isn't known
	}
	p.content, p.last = content, g.Generation
	r.pins[k] = p
	return p.entry
}

// waited says for how long Machines are to leave, as rules.Wait counts, by this manager's clock, and notes those that are new.
func (r *Reconciler) waited(of types.NamespacedName, v *view) func(uid string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Now()
	serves := v.Serving()
	out := map[string]time.Duration{}
	leaves := func(uid string, still bool) {
		k := leaver{of, uid}
		if _, known := r.leaving[k]; !known {
			r.leaving[k] = now
		}
		out[uid] = rules.Wait(v.Shared, now.Sub(r.leaving[k]), still, serves[uid])
		r.leaving[k] = now.Add(-out[uid])
	}
	for i := range v.Machines {
		m := &v.Machines[i]
		if !m.Deleting && v.Selects(m) {
			continue
		}
		if !m.Deleting && !v.Kind.Hooked(m.Annotations, v.Key()) {
			continue // it was never a target, or isn't held
		}
		leaves(m.UID, m.Still() != "")
	}
	v.Targets(func(g *machines.Group, at int) {
		if t := &g.Object.Spec.Targets[at]; v.objects[t.UID] == nil {
			leaves(t.UID, false) // its Machine is gone
		}
	})
	for k := range r.leaving {
		if _, still := out[k.uid]; k.of == of && !still {
			delete(r.leaving, k)
		}
	}
	return func(uid string) time.Duration { return out[uid] }
}
