package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// nodesKey is the one key of the nodes' queue: what changes while one write runs is in the next.
var nodesKey = reconcile.Request{NamespacedName: types.NamespacedName{Name: v1alpha1.TargetsNodes}}

// nodes keeps the TargetGroups of the tenant's Nodes. It is safe for concurrent use.
type nodes struct {
	mu         sync.Mutex // one round at a time
	tenant     client.Client
	hub        client.Client
	namespace  string
	memory     *memory[v1alpha1.TargetGroupSpec]
	gone       *observed[string] // by UID
	events     *recorder
	clusterUID string
	log        *slog.Logger
	metrics    *metrics
	// doomed are the Nodes that the cluster autoscaler is about to delete, by UID.
	doomed map[string]node.Doom
	// way is how Nodes are checked; empty: as the groups say that are there.
	way node.Way
	// kept are the UIDs of targets that are held.
	kept map[string]bool
	// wake has a round begin.
	wake func()
}

// checkedBy is how Nodes are checked, if these are their groups.
func (r *nodes) checkedBy(groups []*v1alpha1.TargetGroup) node.Way {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wayFrom(groups)
}

// wayFrom takes from the groups what an agent before this one decided. r.mu is held.
func (r *nodes) wayFrom(groups []*v1alpha1.TargetGroup) node.Way {
	if r.way == "" {
		r.way = node.WayOf(groups)
	}
	return r.way
}

// checkBy has the groups say another way.
func (r *nodes) checkBy(way node.Way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.way = way
	r.wake()
}

// holds tells whether the target of a UID is held, though its Node is missing.
func (r *nodes) holds(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[uid]
}

// Reconcile writes the groups that differ.
func (r *nodes) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	list := &v1alpha1.TargetGroupList{}
	if err := r.hub.List(ctx, list, client.InNamespace(r.namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing TargetGroups: %w", err)
	}
	_, again, err := r.round(ctx, list)
	return reconcile.Result{RequeueAfter: again}, err
}

// round compares the hub's groups, and counts what it wrote, now or before, that isn't listed yet; not what the hub refuses for good. again says when to look again at a write that isn't listed.
func (r *nodes) round(ctx context.Context, list *v1alpha1.TargetGroupList) (wrote int64, again time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &v1.NodeList{}
	if err := r.tenant.List(ctx, all); err != nil {
		return 0, 0, fmt.Errorf("listing Nodes: %w", err)
	}
	targets, lasts := r.targets(all)
	groups := map[int]*v1alpha1.TargetGroup{}
	have := map[int][]v1alpha1.Target{}
	for i := range list.Items {
		g := &list.Items[i]
		if index, ok := node.Index(g.Name); ok {
			groups[index] = g
			have[index] = g.Spec.Targets
		}
	}
	// What was written and isn't in the cache yet counts.
	specs := map[int]v1alpha1.TargetGroupSpec{}
	fresh := map[int]bool{}
	for index := range indices(have, len(targets)) {
		var cached client.Object
		if g := groups[index]; g != nil {
			cached = g
			specs[index] = g.Spec
		}
		if spec, wait, ok := r.memory.pending(r.key(index), cached); ok {
			have[index], specs[index], fresh[index] = spec.Targets, spec, true
			again = wait
			wrote++
		}
	}
	held, annotations, until := r.held(have, groups[0], all)
	again = soonest(soonest(again, lasts), until)
	targets = append(targets, held...)
	r.kept = map[string]bool{}
	for _, t := range held {
		r.kept[t.UID] = true
	}
	way := r.wayFrom(groupsOf(list))
	want := node.Place(have, targets, way)
	var taken []*v1alpha1.TargetGroup // their time is over, or means nothing
	r.metrics.targets.Set(float64(len(targets)))
	var errs []error
	for index, spec := range want {
		is, exists := specs[index]
		g := groups[index]
		says := map[string]string{}
		if index == 0 {
			maps.Copy(says, annotations)
		}
		if reason := way.Reason(); reason != "" {
			says[v1alpha1.AnnotationCheckedByPort] = reason
		}
		labelled := g == nil || g.Labels[v1alpha1.LabelTargets] == v1alpha1.TargetsNodes && g.Annotations[v1alpha1.AnnotationHeldUntil] == says[v1alpha1.AnnotationHeldUntil] &&
			(fresh[index] || way == node.ByHealthz || g.CheckedByPort() == way.Reason())
		if exists && labelled && equality.Semantic.DeepEqual(is, spec) {
			continue
		}
		err := r.apply(ctx, index, says, spec)
		if !lasting(err) {
			wrote++
		}
		errs = append(errs, err)
		if g != nil && g.Annotations[v1alpha1.AnnotationHeldUntil] != "" && says[v1alpha1.AnnotationHeldUntil] == "" {
			taken = append(taken, g)
		}
	}
	for index, g := range groups {
		if _, wanted := want[index]; !wanted && g.DeletionTimestamp == nil {
			wrote++
			errs = append(errs, r.remove(ctx, g))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return wrote, again, err
	}
	for _, g := range taken { // only now: while a target is there that the time was for, it would be held anew
		errs = append(errs, unholdGroup(ctx, r.hub, r.metrics, g))
	}
	return wrote, again, errors.Join(errs...)
}

// indices are those of the groups that are there, and of all that a write may be on its way to.
func indices(have map[int][]v1alpha1.Target, targets int) map[int]struct{} {
	out := map[int]struct{}{}
	for index := range targets/2 + 1 { // more groups than that were never filled
		out[index] = struct{}{}
	}
	for index := range have {
		out[index] = struct{}{}
	}
	return out
}

func (r *nodes) key(index int) types.NamespacedName {
	return types.NamespacedName{Namespace: r.namespace, Name: node.GroupName(index)}
}

// targets are those of all Nodes; again says when one has drained for long enough. r.mu is held.
func (r *nodes) targets(all *v1.NodeList) (targets []v1alpha1.Target, again time.Duration) {
	now := time.Now()
	doomed := map[string]node.Doom{}
	for i := range all.Items {
		n := &all.Items[i]
		t, why := node.Target(n)
		if why != "" {
			r.log.Debug("node is no target", "node", n.Name, "why", why)
			continue
		}
		if d := node.Doomed(n, r.doomed[t.UID], now); d != (node.Doom{}) {
			doomed[t.UID] = d
		}
		targets = append(targets, t)
	}
	r.doomed = doomed
	return node.Spare(targets, doomed, now)
}

// held are the targets that stay though their Nodes are missing; until, on the first group, says how long.
func (r *nodes) held(have map[int][]v1alpha1.Target, first *v1alpha1.TargetGroup, all *v1.NodeList) (held []v1alpha1.Target, annotations map[string]string, again time.Duration) {
	m := node.Missing{Nodes: all.Items, Deleted: r.gone.has, Now: time.Now()}
	for _, index := range slices.Sorted(maps.Keys(have)) {
		m.Have = append(m.Have, have[index]...)
	}
	if first != nil {
		// What is no time holds nothing yet.
		m.Until, _ = time.Parse(time.RFC3339, first.Annotations[v1alpha1.AnnotationHeldUntil])
	}
	held, until := node.Held(m)
	if len(held) == 0 {
		return nil, nil, 0
	}
	text := until.UTC().Format(time.RFC3339)
	if m.Until.IsZero() {
		r.log.Warn("targets held, for most nodes are missing and nobody was seen to delete them", "nodes", len(held), "until", text)
		r.events.tell(happening{about: wholeCluster(r.clusterUID), name: fmt.Sprintf("fairlead-agent.nodes.%x", until.Unix()), warning: true, reason: service.ReasonNodesMissing,
			note: fmt.Sprintf("%d nodes are missing and nobody was seen to delete them, more than half of all: they stay targets until %s, or until they are back. To give them up earlier, have the hub's operator write an earlier time to the annotation %s of TargetGroup %s",
				len(held), text, v1alpha1.AnnotationHeldUntil, node.GroupName(0))})
	}
	return held, map[string]string{v1alpha1.AnnotationHeldUntil: text}, min(time.Until(until), heldLook)
}

func (r *nodes) apply(ctx context.Context, index int, says map[string]string, spec v1alpha1.TargetGroupSpec) error {
	version, err := applyTargetGroup(ctx, r.hub, r.key(index), node.Labels(), says, spec)
	r.metrics.wrote(hubCluster, "targetgroup", err)
	if err != nil {
		return err
	}
	r.memory.wrote(r.key(index), spec, version)
	r.log.Info("wrote target group", "targetgroup", node.GroupName(index), "targets", len(spec.Targets))
	return nil
}

func (r *nodes) remove(ctx context.Context, g *v1alpha1.TargetGroup) error {
	if err := removeGroup(ctx, r.hub, r.metrics, g); err != nil {
		return err
	}
	r.memory.forget(types.NamespacedName{Namespace: g.Namespace, Name: g.Name})
	return nil
}

// sameTarget tells whether a Node's change changes nothing here: heartbeats.
func sameTarget(a, b *v1.Node) bool {
	x, whyX := node.Target(a)
	y, whyY := node.Target(b)
	return whyX == whyY && equality.Semantic.DeepEqual(x, y) && node.SameDoom(a, b)
}
