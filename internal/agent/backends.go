package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// backends keeps a TargetGroup for each Service that another load balancer serves: that one's addresses. It has the name of the
// LoadBalancer that sends there.
type backends struct {
	hub       client.Client
	hubLive   client.Reader
	namespace string
	memory    *memory[v1alpha1.TargetGroupSpec]
	// emptied knows by Service whose address was seen to be taken, until it has one again or is gone.
	emptied *observed[types.NamespacedName]
	metrics *metrics
}

// errTaken says that somebody else made a TargetGroup of that name.
var errTaken = errors.New("the hub has another TargetGroup of that name")

func (b *backends) key(of types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: b.namespace, Name: service.Name(of)}
}

// turned notes whether the address of a Service was seen to be taken, as against a Service that is another, or an older one, by now.
func (b *backends) turned(before, after *v1.Service) {
	switch {
	case len(after.Status.LoadBalancer.Ingress) > 0 || before.UID != after.UID:
		b.emptied.exists(service.Key(after))
	case len(before.Status.LoadBalancer.Ingress) > 0 && !older(after.ResourceVersion, before.ResourceVersion):
		b.emptied.lasting(service.Key(after))
	}
}

// group is the hub's of a Service, nil if it has none.
func (b *backends) group(ctx context.Context, key types.NamespacedName, from client.Reader) (*v1alpha1.TargetGroup, error) {
	g := &v1alpha1.TargetGroup{}
	err := from.Get(ctx, b.key(key), g)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading TargetGroup %s: %w", b.key(key).Name, err)
	}
	return g, nil
}

// ensure writes the TargetGroup of a Service where g, the hub's, differs. again says when to look again at one that is held.
func (b *backends) ensure(ctx context.Context, s *v1.Service, l *clusterv1.LoadBalancer, g *v1alpha1.TargetGroup) (problem *service.Problem, wrote bool, again time.Duration, err error) {
	key := b.key(service.Key(s))
	var cached client.Object
	e := service.Emptied{Backend: service.Backend(s, l), Seen: b.emptied.has(service.Key(s)), Now: time.Now()}
	if g != nil {
		if origin, ok := service.Origin(g); !ok || origin != service.Key(s) {
			return nil, false, 0, fmt.Errorf("%w: %s", errTaken, key.Name)
		}
		cached, e.Have, e.HeldUntil = g, g.Spec.Targets, g.Annotations[v1alpha1.AnnotationHeldUntil]
	}
	spec, wait, pending := b.memory.pending(key, cached)
	if pending {
		e.Have = spec.Targets
	}
	targets, until := service.Hold(e)
	problem = service.BackendProblem(e.Backend, targets, until)
	says := map[string]string{v1alpha1.AnnotationOrigin: service.OriginOf(service.Key(s)), v1alpha1.AnnotationOriginUID: string(s.UID)}
	if !until.IsZero() {
		says[v1alpha1.AnnotationHeldUntil] = until.UTC().Format(time.RFC3339)
		again = min(time.Until(until), heldLook)
	}
	want := service.BackendSpec(targets)
	switch {
	case pending && equality.Semantic.DeepEqual(spec, want):
		return problem, false, soonest(wait, again), nil
	case !pending && g != nil && equality.Semantic.DeepEqual(g.Spec, want) && g.Labels[v1alpha1.LabelTargets] == key.Name && b.said(g, says):
		return problem, false, again, nil
	}
	version, err := applyTargetGroup(ctx, b.hub, key, service.BackendLabels(s), says, want)
	b.metrics.wrote(hubCluster, "targetgroup", err)
	if err != nil {
		return problem, false, 0, err
	}
	b.memory.wrote(key, want, version)
	if g != nil && until.IsZero() && g.Annotations[v1alpha1.AnnotationHeldUntil] != "" {
		err = unholdGroup(ctx, b.hub, b.metrics, g)
	}
	return problem, true, again, err
}

func (b *backends) said(g *v1alpha1.TargetGroup, says map[string]string) bool {
	have := map[string]string{}
	for _, key := range []string{v1alpha1.AnnotationOrigin, v1alpha1.AnnotationOriginUID, v1alpha1.AnnotationHeldUntil} {
		if text, ok := g.Annotations[key]; ok {
			have[key] = text
		}
	}
	return maps.Equal(have, says)
}

// drop deletes the TargetGroup of a Service that needs none any more.
func (b *backends) drop(ctx context.Context, key types.NamespacedName) error {
	g, err := b.group(ctx, key, b.hub)
	if err != nil {
		return err
	}
	if _, _, pending := b.memory.pending(b.key(key), nil); g == nil && pending {
		if g, err = b.group(ctx, key, b.hubLive); err != nil {
			return err
		}
	}
	b.memory.forget(b.key(key))
	if g == nil || g.DeletionTimestamp != nil {
		return nil
	}
	if origin, ok := service.Origin(g); !ok || origin != key {
		return nil
	}
	return removeGroup(ctx, b.hub, b.metrics, g)
}

// removeGroup deletes a TargetGroup; one that is gone is no error.
func removeGroup(ctx context.Context, hub client.Client, m *metrics, g *v1alpha1.TargetGroup) error {
	err := hub.Delete(ctx, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}, client.Preconditions{UID: &g.UID})
	m.wrote(hubCluster, "targetgroup", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting TargetGroup %s: %w", g.Name, err)
	}
	return nil
}

// unholdGroup takes the time off until when a TargetGroup holds targets. Where a person wrote it, it is that one's field, and stays
// with whatever is applied without it.
func unholdGroup(ctx context.Context, hub client.Client, m *metrics, g *v1alpha1.TargetGroup) error {
	p, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": g.UID, "annotations": map[string]any{v1alpha1.AnnotationHeldUntil: nil}}})
	if err != nil {
		return err
	}
	err = hub.Patch(ctx, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}, p, client.FieldOwner(fieldManager))
	m.wrote(hubCluster, "targetgroup", err)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotating TargetGroup %s: %w", g.Name, err)
	}
	return nil
}
