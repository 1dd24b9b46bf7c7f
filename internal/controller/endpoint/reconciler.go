package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Options of a Reconciler.
type Options struct {
	Logger *slog.Logger
	// Client reads the cache and writes; Reader reads from the API server itself.
	Client client.Client
	Reader client.Reader
	// Kinds says in which version the hub serves a kind, if at all.
	Kinds meta.RESTMapper
}

// Reconciler reconciles the endpoint of one Cluster at a time, named by the request.
type Reconciler struct{ Options }

// New returns a reconciler.
func New(o Options) *Reconciler { return &Reconciler{o} }

// Reconcile brings a Cluster and its ClusterEndpoints together.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	all, err := r.endpoints(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	c, err := r.cluster(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if c == nil {
		text := fmt.Sprintf("There is no Cluster %s in this namespace: create it, or delete the ClusterEndpoint.", req.Name)
		return reconcile.Result{}, r.say(ctx, all, func(*clusterv1.ClusterEndpoint) []metav1.Condition {
			return []metav1.Condition{{Type: clusterv1.ConditionSurfaced, Status: metav1.ConditionFalse, Reason: clusterv1.ReasonClusterNotFound, Message: text}}
		})
	}
	infra, err := r.referred(ctx, c, "infrastructureRef")
	if err != nil {
		return reconcile.Result{}, err
	}
	control, err := r.referred(ctx, c, "controlPlaneRef")
	if err != nil {
		return reconcile.Result{}, err
	}
	facts := rules.Facts{
		Still: still(c), Cluster: endpointOf(c), InUse: true,
		ControlPlane: endpointOf(control.object), InfraCluster: infra.infraCluster(),
	}
	if facts.Still == "" {
		if all, err = r.forget(ctx, c, infra, control, all); err != nil {
			return reconcile.Result{}, err
		}
	}
	for i := range all {
		facts.Endpoints = append(facts.Endpoints, read(&all[i]))
	}
	// What is accepted and doesn't parse accepts nothing; the condition goes on to say what is to be accepted.
	if h, err := rules.Parse(c.GetAnnotations()[clusterv1.AcceptEndpointAnnotation]); err == nil {
		facts.Accepted = h
	}
	plan := rules.Decide(facts)
	if has(plan, rules.ReasonEndpointConflict) {
		if facts.InUse, err = r.inUse(ctx, c); err != nil {
			return reconcile.Result{}, err
		}
		plan = rules.Decide(facts)
	}
	if all, err = r.mirror(ctx, c, owner(generatedFrom(plan), c, infra, control), all, plan); err != nil {
		return reconcile.Result{}, err
	}
	if plan.Cluster.Whole() {
		if err := r.surface(ctx, c, plan.Cluster); err != nil {
			return reconcile.Result{}, err
		}
	}
	if plan.InfraCluster.Whole() && !infra.isPaused() {
		if err := r.surface(ctx, infra.object, plan.InfraCluster); err != nil {
			return reconcile.Result{}, err
		}
	}
	told, again := judgeTold(infra, endpointOf(c), plan)
	if plan.Primary == "" {
		told, again = nil, 0 // nobody asked for it
	}
	if has(plan, rules.ReasonEndpointConflict) {
		again = lookAgain // what it is in use by isn't watched
	}
	now := endpointOf(c)
	return reconcile.Result{RequeueAfter: again}, r.say(ctx, all, func(e *clusterv1.ClusterEndpoint) []metav1.Condition {
		out := []metav1.Condition{judge(e, now, plan)}
		if told != nil && e.Name == plan.Primary {
			out = append(out, *told)
		}
		return out
	})
}

// owner is what owns a ClusterEndpoint that is generated: what its endpoint came from, or else the Cluster.
func owner(from rules.Source, c *unstructured.Unstructured, infra, control referred) *unstructured.Unstructured {
	switch {
	case from == rules.FromInfraCluster && infra.object != nil:
		return infra.object
	case from == rules.FromControlPlane && control.object != nil:
		return control.object
	}
	return c
}

// generatedFrom is what the endpoint came from of the one that is to be generated; empty: none is.
func generatedFrom(p rules.Plan) rules.Source {
	if p.Generated == nil {
		return ""
	}
	return p.Generated.Source
}

// endpoints are a Cluster's, sorted by name; those that are being deleted count no more.
func (r *Reconciler) endpoints(ctx context.Context, cluster types.NamespacedName) ([]clusterv1.ClusterEndpoint, error) {
	list := &clusterv1.ClusterEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the ClusterEndpoints of Cluster %s: %w", cluster, err)
	}
	out := slices.DeleteFunc(list.Items, func(e clusterv1.ClusterEndpoint) bool {
		return e.Spec.Cluster != cluster.Name || e.DeletionTimestamp != nil
	})
	slices.SortFunc(out, func(a, b clusterv1.ClusterEndpoint) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func read(e *clusterv1.ClusterEndpoint) rules.ClusterEndpoint {
	from, generated := e.Annotations[clusterv1.GeneratedFromAnnotation]
	return rules.ClusterEndpoint{
		Name: e.Name, HostPort: rules.HostPort{Host: e.Spec.Host, Port: e.Spec.Port}, Primary: e.Spec.Primary,
		Generated: generated, Source: rules.Source(from),
	}
}

// forget deletes what mirrors another Cluster of this one's name, one that was deleted before: its endpoint is dead, and
// garbage collection may come later. What mirrors the endpoint that this one has, as where it was restored with another UID, or
// doesn't say whose it is, is this one's. It returns the others.
func (r *Reconciler) forget(ctx context.Context, c *unstructured.Unstructured, infra, control referred, all []clusterv1.ClusterEndpoint) ([]clusterv1.ClusterEndpoint, error) {
	var out []clusterv1.ClusterEndpoint
	for i := range all {
		e := &all[i]
		_, generated := e.Annotations[clusterv1.GeneratedFromAnnotation]
		if !generated || e.Annotations[clusterv1.GeneratedForAnnotation] == string(c.GetUID()) {
			out = append(out, *e)
			continue
		}
		if of := read(e); endpointOf(c).Whole() && of.Same(endpointOf(c)) {
			if err := r.take(ctx, c, owner(of.Source, c, infra, control), e); err != nil {
				return nil, err
			}
			out = append(out, *e)
			continue
		}
		if err := r.remove(ctx, e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// take makes a generated one this Cluster's and its owner's, if it is still as it was read. Where its endpoint came from stays.
func (r *Reconciler) take(ctx context.Context, c, owner *unstructured.Unstructured, e *clusterv1.ClusterEndpoint) error {
	old := e.DeepCopy()
	e.Annotations[clusterv1.GeneratedForAnnotation] = string(c.GetUID())
	e.OwnerReferences = []metav1.OwnerReference{ownedBy(owner)}
	if err := r.Client.Patch(ctx, e, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
		return fmt.Errorf("noting Cluster %s on the generated ClusterEndpoint %s/%s: %w", c.GetName(), e.Namespace, e.Name, err)
	}
	return nil
}

func ownedBy(o *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID()}
}

// remove deletes a generated one, if it is still as it was read.
func (r *Reconciler) remove(ctx context.Context, e *clusterv1.ClusterEndpoint) error {
	if err := r.Client.Delete(ctx, e, client.Preconditions{UID: &e.UID, ResourceVersion: &e.ResourceVersion}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the generated ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
	}
	return nil
}

func has(p rules.Plan, reason string) bool {
	return slices.ContainsFunc(p.Problems, func(x rules.Problem) bool { return x.Reason == reason })
}

// mirror keeps the generated ClusterEndpoint as it is to be, and returns all that there are then.
func (r *Reconciler) mirror(ctx context.Context, c, owner *unstructured.Unstructured, all []clusterv1.ClusterEndpoint, plan rules.Plan) ([]clusterv1.ClusterEndpoint, error) {
	var out []clusterv1.ClusterEndpoint
	found := false
	for i := range all {
		e := &all[i]
		if _, generated := e.Annotations[clusterv1.GeneratedFromAnnotation]; !generated {
			out = append(out, *e)
			continue
		}
		if plan.Generated == nil || found {
			if err := r.remove(ctx, e); err != nil {
				return nil, err
			}
			continue
		}
		found = true
		if want := plan.Generated.HostPort; e.Spec.Host != want.Host || e.Spec.Port != want.Port {
			old := e.DeepCopy()
			e.Spec.Host, e.Spec.Port = want.Host, want.Port
			if err := r.Client.Patch(ctx, e, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
				return nil, fmt.Errorf("writing the generated ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
			}
		}
		out = append(out, *e)
	}
	if plan.Generated == nil || found {
		return out, nil
	}
	e, err := r.generated(ctx, c, owner, *plan.Generated)
	if err != nil {
		return nil, err
	}
	if err := r.Client.Create(ctx, e, client.FieldOwner(kit.FieldManager)); err != nil {
		return nil, fmt.Errorf("creating the ClusterEndpoint of Cluster %s/%s: %w", c.GetNamespace(), c.GetName(), err)
	}
	return append(out, *e), nil
}

// generated is a new one, of the Cluster's name unless another Cluster's ClusterEndpoint has that.
func (r *Reconciler) generated(ctx context.Context, c, owner *unstructured.Unstructured, g rules.Generated) (*clusterv1.ClusterEndpoint, error) {
	e := &clusterv1.ClusterEndpoint{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.GetNamespace(), Name: c.GetName(),
			Labels:          map[string]string{clusterv1.ClusterNameLabel: c.GetName()},
			Annotations:     map[string]string{clusterv1.GeneratedFromAnnotation: string(g.Source), clusterv1.GeneratedForAnnotation: string(c.GetUID())},
			OwnerReferences: []metav1.OwnerReference{ownedBy(owner)},
		},
		Spec: clusterv1.ClusterEndpointSpec{Cluster: c.GetName(), Host: g.Host, Port: g.Port, Type: clusterv1.ClusterEndpointAPIServer},
	}
	other := &clusterv1.ClusterEndpoint{}
	switch err := r.Client.Get(ctx, client.ObjectKeyFromObject(e), other); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
	case err == nil && other.Spec.Cluster != e.Spec.Cluster:
		e.Name += "-generated"
	}
	return e, nil
}

// judge says what came of a ClusterEndpoint of a Cluster that has the endpoint now.
func judge(e *clusterv1.ClusterEndpoint, now rules.HostPort, p rules.Plan) metav1.Condition {
	of := read(e)
	out := metav1.Condition{Type: clusterv1.ConditionSurfaced, Status: metav1.ConditionFalse}
	legacy := slices.IndexFunc(p.Problems, func(x rules.Problem) bool { return x.Reason == rules.ReasonLegacyEndpoint })
	mine := slices.DeleteFunc(slices.Clone(p.Problems), func(x rules.Problem) bool {
		return x.Reason != rules.ReasonEndpointConflict && x.Reason != rules.ReasonNoPrimary && x.Reason != rules.ReasonEndpointIncomplete
	})
	switch {
	case of.Same(now) && of.Generated && legacy >= 0:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, clusterv1.ReasonLegacyEndpoint, sentence(p.Problems[legacy].Message)
	case of.Same(now):
		out.Status, out.Reason = metav1.ConditionTrue, clusterv1.ReasonSurfaced
	case !of.Generated && p.Primary != "" && p.Primary != e.Name:
		out.Reason, out.Message = clusterv1.ReasonNotPrimary, fmt.Sprintf("ClusterEndpoint %s is primary.", p.Primary)
	case len(mine) > 0:
		out.Reason, out.Message = mine[0].Reason, sentence(mine[0].Message)
	case p.Waits != "":
		out.Reason, out.Message = clusterv1.ReasonPending, sentence(p.Waits)
	default:
		out.Reason, out.Message = clusterv1.ReasonPending, "The Cluster's endpoint is to come."
	}
	return out
}

// sentence makes one of a message that begins with a small letter and ends without a stop.
func sentence(s string) string {
	if s[0] >= 'a' && s[0] <= 'z' {
		s = string(s[0]-'a'+'A') + s[1:]
	}
	return s + "."
}

// say writes the conditions of each. What is said no more is taken away.
func (r *Reconciler) say(ctx context.Context, all []clusterv1.ClusterEndpoint, of func(*clusterv1.ClusterEndpoint) []metav1.Condition) error {
	for i := range all {
		e := &all[i]
		said, next := of(e), e.DeepCopy()
		for _, kind := range []string{clusterv1.ConditionSurfaced, clusterv1.ConditionInfraClusterTold} {
			at := slices.IndexFunc(said, func(c metav1.Condition) bool { return c.Type == kind })
			if at < 0 {
				meta.RemoveStatusCondition(&next.Status.Conditions, kind)
				continue
			}
			said[at].ObservedGeneration = e.Generation
			meta.SetStatusCondition(&next.Status.Conditions, said[at])
		}
		if _, err := kit.PatchStatusAsRead(ctx, r.Client, e, next); err != nil {
			return fmt.Errorf("ClusterEndpoint %s/%s: %w", e.Namespace, e.Name, err)
		}
	}
	return nil
}
