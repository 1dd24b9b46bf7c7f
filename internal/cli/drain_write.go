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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	if err := annotate(ctx, t.client, n, undo); err != nil {
		return "", fmt.Errorf("annotating Node %s of the tenant cluster: %w", name, err)
	}
	if target, _ := node.Target(n); undo && target.State == v1alpha1.TargetDraining {
		return "the cluster autoscaler's taint drains it still", nil
	}
	return "", nil
}

// annotate sets or takes away the annotation that disables o.
func annotate(ctx context.Context, c client.Client, o client.Object, undo bool) error {
	var value any = disabledValue
	if undo {
		value = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.DisabledAnnotation: value}}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body), client.FieldOwner(drainManager))
}

// DrainTargets tells targets of a TargetGroup to drain, or with undo to take connections again.
func (h *Hub) DrainTargets(ctx context.Context, t Targets, undo bool) error {
	key := types.NamespacedName{Namespace: t.Namespace, Name: t.Group}
	if t.Target == "" {
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Group}}
		if err := annotate(ctx, h.client, g, undo); err != nil {
			return fmt.Errorf("annotating TargetGroup %s: %w", key, err)
		}
		return nil
	}
	state := v1alpha1.TargetDraining
	if undo {
		state = v1alpha1.TargetServing
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		g := &v1alpha1.TargetGroup{}
		if err := h.client.Get(ctx, key, g); err != nil {
			return err
		}
		places, err := t.find(&Objects{TargetGroups: []*v1alpha1.TargetGroup{g}})
		if err != nil {
			return err
		}
		target := &g.Spec.Targets[places[0].index]
		if target.State == state {
			return nil
		}
		target.State = state
		return h.client.Update(ctx, g, client.FieldOwner(drainManager))
	})
	if err != nil {
		return fmt.Errorf("writing spec.targets of TargetGroup %s: %w", key, err)
	}
	return nil
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
	last := ""
	for {
		o, err := hub.Look(ctx, t.Namespace)
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
