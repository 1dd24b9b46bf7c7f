package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/node"
	rules "fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// drainManager is the field manager under which targets are told to drain.
const drainManager = "fairlead-drain"

// disabledValue says to people who reads it where the annotation is from; its presence counts.
const disabledValue = "drained"

var errHidden = errors.New("use the hub operator's kubeconfig, or the tenant's")

// DrainNode tells a tenant's Node to drain, or with undo to take connections again. still says what it drains by
// after an undo; empty: nothing.
func (t *Tenant) DrainNode(ctx context.Context, name string, undo bool) (still string, err error) {
	n := &corev1.Node{}
	if err := t.client.Get(ctx, types.NamespacedName{Name: name}, n); err != nil {
		return "", fmt.Errorf("reading Node %s of the tenant cluster: %w", name, err)
	}
	if err := annotate(ctx, t.client, n, undo, ""); err != nil {
		return "", fmt.Errorf("annotating Node %s of the tenant cluster: %w", name, err)
	}
	if target, _ := node.Target(n); undo && target.State == v1alpha1.TargetDraining {
		return "the cluster autoscaler's taint drains it still", nil
	}
	return "", nil
}

// annotate sets or takes away the annotation that disables o; with its resourceVersion if that should be as it was read.
func annotate(ctx context.Context, c client.Client, o client.Object, undo bool, version string) error {
	var value any = disabledValue
	if undo {
		value = nil
	}
	metadata := map[string]any{"annotations": map[string]any{clusterv1.DisabledAnnotation: value}}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body), client.FieldOwner(drainManager))
}

// DrainTargets tells targets of a TargetGroup to drain, or with undo to take connections again: Machines and Nodes by their annotation, others
// in spec. A write of spec raises the group's generation, so that what the manager says of an earlier drain is not taken for this
// one's. still says what keeps some from taking connections after an undo; empty: nothing.
func (h *Hub) DrainTargets(ctx context.Context, t Targets, undo bool) (still string, err error) {
	key := types.NamespacedName{Namespace: t.Namespace, Name: t.Group}
	mirror := false
	var ofTheirs []place
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		g := &v1alpha1.TargetGroup{}
		if err := h.client.Get(ctx, key, g); err != nil {
			return err
		}
		places, err := t.find(&Objects{TargetGroups: []*v1alpha1.TargetGroup{g}})
		if err == nil && generatedFrom(g) != "" {
			ofTheirs = places
			return nil
		}
		if mirror = mirrorsNodes(g); err != nil || mirror || !t.tell(places, undo) {
			return err
		}
		return h.client.Update(ctx, g, client.FieldOwner(drainManager))
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("writing spec.targets of TargetGroup %s: %w", key, err)
	case mirror:
		return "", h.disable(ctx, key, undo)
	case ofTheirs != nil:
		return h.disableMachines(ctx, ofTheirs, undo)
	}
	return "", nil
}

// tell writes to the targets of one group what they are to do; false: they do it already. All of them take connections again
// without the annotation, too.
func (t Targets) tell(places []place, undo bool) (changed bool) {
	for _, p := range places {
		if _, disabled := p.group.Annotations[clusterv1.DisabledAnnotation]; undo && disabled && t.Target == "" {
			delete(p.group.Annotations, clusterv1.DisabledAnnotation)
			changed = true
		}
		target := &p.group.Spec.Targets[p.index]
		if drains := target.State == v1alpha1.TargetDraining; drains != undo {
			continue
		}
		if target.State = v1alpha1.TargetDraining; undo {
			target.State = v1alpha1.TargetServing
		}
		changed = true
	}
	return changed
}

// lookAgain is the pause until a group is looked at again.
const lookAgain = 200 * time.Millisecond

// disable annotates a group whose spec its agent writes, which raises no generation: it waits until the manager speaks of no
// earlier drain.
func (h *Hub) disable(ctx context.Context, key types.NamespacedName, undo bool) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, lookAgain, true, func(ctx context.Context) (bool, error) {
		g := &v1alpha1.TargetGroup{}
		if err := h.client.Get(ctx, key, g); err != nil {
			return false, err
		}
		if !undo && toldOfEarlier(g) {
			last = errors.New("the manager has yet to see that an earlier drain was undone: see to it with fairlead status")
			return false, nil
		}
		last = annotate(ctx, h.client, g, undo, g.ResourceVersion)
		if apierrors.IsConflict(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil {
		if !errors.Is(last, err) {
			err = errors.Join(err, last)
		}
		return fmt.Errorf("annotating TargetGroup %s: %w", key, err)
	}
	return nil
}

// toldOfEarlier: the manager says that a target drains, which isn't told to.
func toldOfEarlier(g *v1alpha1.TargetGroup) bool {
	for i := range g.Spec.Targets {
		if m := memberStatus(g, i); !g.Drains(i) && m != nil && (m.State == stateDraining || m.State == stateDrained) {
			return true
		}
	}
	return false
}

// Look reads what Judge needs.
func (h *Hub) Look(ctx context.Context, namespace string) (*Objects, error) {
	o := &Objects{}
	var err error
	o.TargetGroups, err = list(ctx, h, o, "targetgroups", &v1alpha1.TargetGroupList{}, func(l *v1alpha1.TargetGroupList) []v1alpha1.TargetGroup { return l.Items }, client.InNamespace(namespace))
	if err == nil && o.hidden("targetgroups") {
		err = fmt.Errorf("you may not list TargetGroups of namespace %s: %w", namespace, errHidden)
	}
	o.Now = h.clock.now()
	return o, err
}

// Follow looks again every so often until the targets are drained, that can't be told any more or ctx ends, and calls told whenever the message is a new one.
func (d *Drain) Follow(ctx context.Context, hub *Hub, t Targets, every time.Duration, told func(*Drain)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, namespace := "", t.Namespace
	if d.madeFrom == rules.Nodes {
		namespace = "" // it drains from LoadBalancers of all
	}
	for {
		o, err := hub.Look(ctx, namespace)
		if err == nil && d.madeFrom != "" {
			o.Machines, err = hub.lookAtMachines(ctx, d.madeFrom, t.Namespace)
		}
		switch {
		case ctx.Err() != nil:
			return nil // what was found last is what there is to say
		case err == nil:
			d.Judge(o)
		case errors.Is(err, errHidden):
			return err
		default:
			// The hub may be back at the next look; the drain goes on meanwhile.
			d.Message = "the hub can't be asked: " + err.Error()
		}
		if d.State == DrainDrained || d.State == DrainUnknown {
			return nil
		}
		if d.Message != last {
			last = d.Message
			told(d)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
