package targetgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	rules "fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofMembers says that a group was made from Machines or Nodes, of which each is waited for by itself.
func ofMembers(g *v1alpha1.TargetGroup) bool {
	return rules.KindOf(g.Labels[v1alpha1.LabelGeneratedFrom]) != ""
}

// pinned is since when a target stands in its group as it does now.
type pinned struct {
	content string
	version proof.Version
	// generation in which it was last seen.
	generation int64
}

// since says at which version each target of a group was first seen as it stands there now, and forgets those that aren't
// there any more. Another target's change doesn't move it: what proxies said of this one holds.
func (r *Reconciler) since(g *v1alpha1.TargetGroup) map[string]proof.Version {
	version := r.Versions.Of(g)
	out := map[string]proof.Version{}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[string]pinned{}
	for i := range g.Spec.Targets {
		t := &g.Spec.Targets[i]
		content := fmt.Sprint(g.Drains(i), t.Addresses)
		p, ok := r.pins[g.UID][t.UID]
		if !ok || p.content != content || p.version > version || g.Generation > p.generation+1 {
			p.version = version // what was between two generations that weren't seen one after the other isn't known
		}
		p.content, p.generation = content, g.Generation
		next[t.UID], out[t.UID] = p, p.version
	}
	if r.pins == nil {
		r.pins = map[types.UID]map[string]pinned{}
	}
	r.pins[g.UID] = next
	return out
}

// machine says what is not plain about a target that is a Machine, and serves: it is active once a live proxy sends to it and
// finds it healthy, whatever another one says.
func machine(f facts, t *v1alpha1.Target, address string) (state, message string) {
	sight := rules.Look(rules.Asked{Removal: proof.Removal{
		Namespace: f.group.Namespace, GroupUID: string(f.group.UID), TargetUID: t.UID, Address: address, Version: f.since[t.UID],
	}}, f.proxies)
	switch {
	case sight.Healthy > 0:
		return "", ""
	case sight.Unhealthy > 0:
		return unhealthy, cut(fmt.Sprintf("Found so by %d of %d live proxies: %s.", sight.Unhealthy, sight.Live, strings.TrimSuffix(sight.Why, ".")))
	case sight.Live == 0:
		return adding, "No live proxy has a word on it."
	}
	return adding, "No live proxy sends to it and has checked it yet."
}

// apart names the LoadBalancer that alone says what becomes of a group's Machines or Nodes, for no proxies of ours send to them; "": proxies say.
func (r *Reconciler) apart(ctx context.Context, g *v1alpha1.TargetGroup) (string, error) {
	if !ofMembers(g) {
		return "", nil
	}
	l, class := &clusterv1.LoadBalancer{}, &v1alpha1.LoadBalancerClass{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: g.Namespace, Name: g.Labels[v1alpha1.LabelFor]}, l)
	if err == nil && l.Spec.InfrastructureRef != nil {
		return l.Name, nil
	}
	if err == nil {
		err = r.Client.Get(ctx, types.NamespacedName{Name: l.Spec.ClassName}, class)
	}
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading the LoadBalancer of TargetGroup %s/%s, and its class: %w", g.Namespace, g.Name, err)
	case err != nil, class.Spec.Proxy != nil:
		return "", nil
	}
	return l.Name, nil
}

// told is what is not plain about a target of which its LoadBalancer alone says what becomes of it.
func told(f facts, i int) (state, message string) {
	t := &f.group.Spec.Targets[i]
	switch {
	case f.group.Drains(i):
		return draining, fmt.Sprintf("The status of LoadBalancer %s says when it is removed.", f.apart)
	case t.Ready != nil && !*t.Ready:
		if f.group.Labels[v1alpha1.LabelGeneratedFrom] == string(rules.Nodes) {
			return unhealthy, "Its Node isn't ready."
		}
		return unhealthy, "Its Cluster says that it isn't ready."
	}
	return "", ""
}

// waits notes whether proxies are waited for in a group of Machines, which then looks at whatever they say.
func (r *Reconciler) waits(g *v1alpha1.TargetGroup, s *v1alpha1.TargetGroupStatus) {
	of := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
	waits := ofMembers(g) && slices.ContainsFunc(s.Targets, func(m v1alpha1.MemberStatus) bool { return m.State == adding || m.State == draining })
	r.mu.Lock()
	defer r.mu.Unlock()
	if !waits {
		delete(r.waiting, of)
		return
	}
	if r.waiting == nil {
		r.waiting = map[types.NamespacedName]struct{}{}
	}
	r.waiting[of] = struct{}{}
}
