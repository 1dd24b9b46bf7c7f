package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/management"
	"fairlead.dev/fairlead/internal/machines"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// local are the TargetGroups that were made here for a LoadBalancer's Machines, by their number.
func (r *mirrors) local(ctx context.Context, of types.NamespacedName) (map[int]*v1alpha1.TargetGroup, error) {
	list := &v1alpha1.TargetGroupList{}
	if err := r.tenant.List(ctx, list, client.InNamespace(of.Namespace), client.MatchingLabels{v1alpha1.LabelFor: of.Name}); err != nil {
		return nil, fmt.Errorf("listing TargetGroups: %w", err)
	}
	out := map[int]*v1alpha1.TargetGroup{}
	for i := range list.Items {
		if for_, n, ok := management.Local(&list.Items[i]); ok && for_ == of {
			out[n] = &list.Items[i]
		}
	}
	return out, nil
}

// groupsOfHub are those of the hub that were made from a LoadBalancer's TargetGroups, by their number.
func (r *mirrors) groupsOfHub(of types.NamespacedName, all []v1alpha1.TargetGroup) map[int]*v1alpha1.TargetGroup {
	out := map[int]*v1alpha1.TargetGroup{}
	for i := range all {
		g := &all[i]
		if n, ok := management.NumberOf(r.key(of).Name, g.Name); ok {
			out[n] = g
		}
	}
	return out
}

// place brings the TargetGroups of the hub to what stands here, and counts what it wrote, now or before, that isn't listed yet. inHub are the hub's of this LoadBalancer,
// others among them don't matter. again says when to look again, at a write that isn't listed, or at what is held.
func (r *mirrors) place(ctx context.Context, of types.NamespacedName, inHub []v1alpha1.TargetGroup) (wrote int64, again time.Duration, err error) {
	local, err := r.local(ctx, of)
	if err != nil {
		return 0, 0, err
	}
	hub := r.groupsOfHub(of, inHub)
	var failed []error
	for _, n := range numbers(local, hub) {
		did, wait, err := r.placeOne(ctx, of, n, management.Pair{
			Local: local[n], Hub: hub[n], Now: time.Now(),
			Deleted: r.goneGroups.has(types.NamespacedName{Namespace: of.Namespace, Name: machines.GroupName(of.Name, n)}),
		})
		if did {
			wrote++
		}
		again = soonest(again, wait)
		failed = append(failed, err)
	}
	return wrote, again, errors.Join(failed...)
}

func (r *mirrors) placeOne(ctx context.Context, of types.NamespacedName, number int, p management.Pair) (wrote bool, again time.Duration, err error) {
	name := r.key(of).Name
	key := types.NamespacedName{Namespace: r.namespace, Name: management.GroupName(name, number)}
	var cached client.Object
	if p.Hub != nil {
		if origin, ok := management.Origin(p.Hub); !ok || origin != of {
			return false, 0, fmt.Errorf("%w: %s", errTaken, key.Name)
		}
		cached = p.Hub
	}
	if _, wait, pending := r.groups.pending(key, cached); pending {
		return true, wait, nil // seen first, then changed
	}
	targets, until := management.Follow(p)
	if p.Spare(targets) {
		r.groups.forget(key)
		return true, 0, removeGroup(ctx, r.hub, r.metrics, p.Hub)
	}
	if !until.IsZero() {
		again = min(time.Until(until), heldLook)
	}
	spec := v1alpha1.TargetGroupSpec{Targets: targets}
	says := map[string]string{}
	switch {
	case p.Local != nil && until.IsZero():
		says = p.Says(management.OriginOf(of))
	case p.Hub != nil: // what is held was mirrored from another one, and goes on to say so
		for _, k := range []string{v1alpha1.AnnotationOrigin, v1alpha1.AnnotationOriginUID, management.AnnotationOriginGeneration} {
			says[k] = p.Hub.Annotations[k]
		}
	}
	if !until.IsZero() {
		says[v1alpha1.AnnotationHeldUntil] = until.UTC().Format(time.RFC3339)
	}
	if h := p.Hub; h != nil && equality.Semantic.DeepEqual(h.Spec, spec) && labelled(h, name) && saysSo(h, says) {
		return false, again, nil
	}
	version, err := r.applyGroup(ctx, key, p.Hub, name, says, spec)
	if err != nil {
		return false, 0, err
	}
	r.groups.wrote(key, spec, version)
	r.log.Info("wrote target group", "loadbalancer", of, "targetgroup", key.Name, "targets", len(targets))
	if until.IsZero() && p.Hub != nil && p.Hub.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
		err = unholdGroup(ctx, r.hub, r.metrics, p.Hub)
	} else if !until.IsZero() && p.Hub.Annotations[v1alpha1.AnnotationHeldUntil] == "" {
		r.log.Warn("targets held, for this cluster lacks them and nobody was seen to take them out", "loadbalancer", of, "targetgroup", key.Name, "until", says[v1alpha1.AnnotationHeldUntil])
	}
	return true, unseen, err
}

func labelled(g *v1alpha1.TargetGroup, inHub string) bool {
	for k, v := range management.Labels(inHub) {
		if g.Labels[k] != v {
			return false
		}
	}
	return true
}

// saysSo says that a TargetGroup has what it is to say.
func saysSo(g *v1alpha1.TargetGroup, says map[string]string) bool {
	have := map[string]string{}
	for _, k := range []string{v1alpha1.AnnotationOrigin, v1alpha1.AnnotationOriginUID, v1alpha1.AnnotationHeldUntil, management.AnnotationOriginGeneration} {
		if text, ok := g.Annotations[k]; ok {
			have[k] = text
		}
	}
	return maps.Equal(have, says)
}

// applyGroup writes a TargetGroup, if it still is as it was read: an agent that lost its lead a moment ago must not bring back a
// target that another one had drained.
func (r *mirrors) applyGroup(ctx context.Context, key types.NamespacedName, was *v1alpha1.TargetGroup, inHub string, says map[string]string, spec v1alpha1.TargetGroupSpec) (string, error) {
	g := &v1alpha1.TargetGroup{}
	if was == nil {
		g.Namespace, g.Name, g.Labels, g.Annotations, g.Spec = key.Namespace, key.Name, management.Labels(inHub), says, spec
		err := r.hub.Create(ctx, g, client.FieldOwner(fieldManager))
		r.metrics.wrote(hubCluster, "targetgroup", err)
		if err != nil {
			return "", fmt.Errorf("creating TargetGroup %s of the hub: %w", key.Name, err)
		}
		return g.ResourceVersion, nil
	}
	g = was.DeepCopy()
	g.Spec = spec
	g.Labels, g.Annotations = merged(g.Labels, management.Labels(inHub)), merged(g.Annotations, says)
	err := r.hub.Patch(ctx, g, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldManager))
	r.metrics.wrote(hubCluster, "targetgroup", err)
	if err != nil {
		return "", fmt.Errorf("writing TargetGroup %s of the hub: %w", key.Name, err)
	}
	return g.ResourceVersion, nil
}

func merged(have, with map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, with)
	return out
}

// dropGroups deletes the hub's TargetGroups of a LoadBalancer that the hub hasn't got any more.
func (r *mirrors) dropGroups(ctx context.Context, of types.NamespacedName) error {
	list := &v1alpha1.TargetGroupList{}
	if err := r.hub.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelTargets: r.key(of).Name}); err != nil {
		return fmt.Errorf("listing TargetGroups of the hub: %w", err)
	}
	var failed []error
	for _, g := range r.groupsOfHub(of, list.Items) {
		if origin, ok := management.Origin(g); !ok || origin != of || g.DeletionTimestamp != nil {
			continue
		}
		r.groups.forget(client.ObjectKeyFromObject(g))
		failed = append(failed, removeGroup(ctx, r.hub, r.metrics, g))
	}
	return errors.Join(failed...)
}

// Sees returns what the hub says of the targets of a TargetGroup that was made here, each by its place.
func (r *mirrors) Sees(ctx context.Context, g *v1alpha1.TargetGroup, since func(*v1alpha1.Target) int64) (func(at int) member.Sight, error) {
	of, n, ok := management.Local(g)
	if !ok {
		return nil, fmt.Errorf("TargetGroup %s/%s wasn't made from Machines", g.Namespace, g.Name)
	}
	l := &clusterv1.LoadBalancer{}
	if err := r.tenant.Get(ctx, of, l); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading LoadBalancer %s: %w", of, err)
	}
	// While the hub has not been read yet, nobody who waits for it is kept from what needs no word of it.
	soon, cancel := context.WithTimeout(ctx, hubRead)
	defer cancel()
	have, in, err := r.inHub(soon, of, n)
	if err != nil {
		if ctx.Err() != nil || soon.Err() == nil {
			return nil, err
		}
		return func(int) member.Sight { return member.Sight{By: management.By, Waits: "it can't be read yet"} }, nil
	}
	unproven := r.unproven(l, have)
	return func(at int) member.Sight {
		return management.See(g, at, in, since(&g.Spec.Targets[at]), unproven)
	}, nil
}

// inHub are what the hub has of a LoadBalancer, and of one of its TargetGroups; nil: nothing that was made from it.
func (r *mirrors) inHub(ctx context.Context, of types.NamespacedName, number int) (*clusterv1.LoadBalancer, *v1alpha1.TargetGroup, error) {
	have, err := r.loadBalancer(ctx, of, r.hub)
	if err != nil {
		return nil, nil, err
	}
	in := &v1alpha1.TargetGroup{}
	key := types.NamespacedName{Namespace: r.namespace, Name: management.GroupName(r.key(of).Name, number)}
	switch err := r.hub.Get(ctx, key, in); {
	case apierrors.IsNotFound(err):
		return have, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading TargetGroup %s of the hub: %w", key.Name, err)
	}
	if origin, ok := management.Origin(in); !ok || origin != of {
		in = nil
	}
	return have, in, nil
}

// round brings all LoadBalancers of the hub up to date after it has become another, and counts what it wrote. It is told what the hub
// has, read from it just now.
func (r *mirrors) round(ctx context.Context, balancers []clusterv1.LoadBalancer, groups []v1alpha1.TargetGroup) (wrote int64, err error) {
	all := &clusterv1.LoadBalancerList{}
	if err := r.tenant.List(ctx, all); err != nil {
		return 0, fmt.Errorf("listing LoadBalancers: %w", err)
	}
	have := map[string]*clusterv1.LoadBalancer{}
	for i := range balancers {
		have[balancers[i].Name] = &balancers[i]
	}
	var failed []error
	for i := range all.Items {
		l := &all.Items[i]
		of := management.Key(l)
		if l.DeletionTimestamp != nil || !management.Mirrored(l) || l.Spec.ClassName == "" {
			continue
		}
		is := have[r.key(of).Name]
		if is != nil {
			if origin, ok := management.Origin(is); !ok || origin != of || is.DeletionTimestamp != nil || is.Spec.ClassName != l.Spec.ClassName {
				continue
			}
		}
		n, _, err := r.place(ctx, of, groups)
		if wrote += n; err == nil {
			var same bool
			if _, same, err = r.ensure(ctx, of, l, is); err == nil && !same {
				wrote++
			}
		}
		if !lasting(err) {
			failed = append(failed, err)
		}
	}
	return wrote, errors.Join(failed...)
}

// numbers are those of either, in order.
func numbers(a, b map[int]*v1alpha1.TargetGroup) []int {
	var out []int
	for n := range a {
		out = append(out, n)
	}
	for n := range b {
		if a[n] == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
