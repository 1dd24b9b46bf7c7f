package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/controller/clusters"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Events tells people about Clusters; nil: it doesn't.
	Events Recorder
	// Who this is; the manager, if not told.
	Who clusters.Who
	// Elsewhere speaks for the hub where that is another cluster than the Clusters'; nil: it is this one.
	Elsewhere Elsewhere
}

// Elsewhere speaks for a hub that is another cluster than the Clusters'. It is safe for concurrent use.
type Elsewhere interface {
	// Unsure asks the hub, and says why it isn't sure that what the status of a LoadBalancer here says is so there now; "": it is.
	Unsure(ctx context.Context, l *clusterv1.LoadBalancer) string
}

// Reconciler reconciles the endpoint of one Cluster at a time, named by the request.
type Reconciler struct {
	Options

	mu sync.Mutex
	// named is the LoadBalancer that a Cluster calls its control plane's, and naming the Clusters that call one so.
	named  map[types.NamespacedName]string
	naming map[types.NamespacedName]map[string]bool
	// told is the last event about a Cluster.
	told map[types.NamespacedName]string
	// reached is where the Services of a Cluster's ClusterEndpoints were reached when it was looked at last.
	reached map[types.NamespacedName]services
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	o.Who = cmp.Or(o.Who, clusters.Manager())
	return &Reconciler{Options: o, named: map[types.NamespacedName]string{}, naming: map[types.NamespacedName]map[string]bool{}, told: map[types.NamespacedName]string{}, reached: map[types.NamespacedName]services{}}
}

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
		r.gone(req.NamespacedName)
		if err := r.orphans(ctx, req.NamespacedName); err != nil {
			return reconcile.Result{}, err
		}
		text := fmt.Sprintf("There is no Cluster %s in this namespace: create it, or delete the ClusterEndpoint.", req.Name)
		return reconcile.Result{}, r.say(ctx, all, nil, func(*clusterv1.ClusterEndpoint) []metav1.Condition {
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
	named := member.NamedBy(c.GetName(), c.GetAnnotations(), control.annotations())
	r.remember(req.NamespacedName, named)
	front, err := r.fronts(ctx, req.NamespacedName, named, endpointOf(c))
	if err != nil {
		return reconcile.Result{}, err
	}
	facts := rules.Facts{
		Still: still(c), Cluster: endpointOf(c), InUse: true,
		ControlPlane: endpointOf(control.object), InfraCluster: infra.infraCluster(), LoadBalancer: front.fact(),
	}
	if facts.Still == "" {
		if all, err = r.forget(ctx, c, infra, control, front, all); err != nil {
			return reconcile.Result{}, err
		}
		if err := r.make(ctx, c, named, front, ofLoadBalancer(all)); err != nil {
			return reconcile.Result{}, err
		}
	}
	at, err := r.services(ctx, req.NamespacedName, all, endpointOf(c))
	if err != nil {
		return reconcile.Result{}, err
	}
	for i := range all {
		facts.Endpoints = append(facts.Endpoints, at.read(&all[i]))
	}
	// What is accepted and doesn't parse accepts nothing; the condition goes on to say what is to be accepted.
	if h, err := rules.Parse(c.GetAnnotations()[clusterv1.AcceptEndpointAnnotation]); err == nil {
		facts.Accepted = h
	}
	if facts.Doubts() {
		if facts.Kubeconfig, err = r.kubeconfig(ctx, c); err != nil {
			return reconcile.Result{}, err
		}
	}
	plan := rules.Decide(facts)
	if conflicts(plan) {
		if facts.InUse, err = r.inUse(ctx, c); err != nil {
			return reconcile.Result{}, err
		}
		plan = rules.Decide(facts)
	}
	unsure := false
	if plan.Cluster.Whole() && generatedFrom(plan) == rules.FromLoadBalancer && front.primary != nil {
		if err := r.confirm(ctx, front); err != nil {
			return reconcile.Result{}, err
		}
		if r.Elsewhere != nil && !plan.Restores {
			facts.LoadBalancer.Unsure = r.Elsewhere.Unsure(ctx, front.primary)
			unsure = facts.LoadBalancer.Unsure != ""
			plan = rules.Decide(facts)
		}
	}
	if all, err = r.mirror(ctx, c, owner(generatedFrom(plan), c, infra, control, front), all, plan); err != nil {
		return reconcile.Result{}, err
	}
	if plan.Cluster.Whole() {
		if err := r.surface(ctx, c, plan.Cluster); err != nil {
			return reconcile.Result{}, err
		}
	}
	if facts.Still == "" && front.refused == "" {
		if err := r.tellFronts(ctx, front, plan.LoadBalancer); err != nil {
			return reconcile.Result{}, err
		}
	}
	if plan.InfraCluster.Whole() && !infra.isPaused() {
		if err := r.surface(ctx, infra.object, plan.InfraCluster); err != nil {
			return reconcile.Result{}, err
		}
	}
	told, again := r.judgeTold(infra, endpointOf(c), plan)
	if (plan.Primary == "" || at[plan.Primary].lacks != nil) && front.primary == nil {
		told, again = nil, 0 // nobody asked for it, or for what can't be said yet
	}
	switch {
	case conflicts(plan):
		again = lookAgain // what it is in use by isn't watched
	case unsure:
		again = askAgain
	case again == 0 && front.unsaid:
		again = lookForNames
	}
	now := endpointOf(c)
	if err := r.sayFronts(ctx, front, func(l *clusterv1.LoadBalancer) metav1.Condition { return front.published(l, now, plan) }); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: at.again(again)}, r.say(ctx, all, at, func(e *clusterv1.ClusterEndpoint) []metav1.Condition {
		out := []metav1.Condition{judge(e, at, now, plan)}
		if told != nil && (e.Name == plan.Primary || read(e).Generated) {
			out = append(out, *told)
		}
		return out
	})
}

// orphans says of LoadBalancers of control planes that there is no such Cluster.
func (r *Reconciler) orphans(ctx context.Context, cluster types.NamespacedName) error {
	front, err := r.fronts(ctx, cluster, "", rules.HostPort{})
	if err != nil || front.refused != "" {
		return err
	}
	return r.sayFronts(ctx, front, func(*clusterv1.LoadBalancer) metav1.Condition {
		return metav1.Condition{
			Status: metav1.ConditionFalse, Reason: clusterv1.ReasonClusterNotFound,
			Message: fmt.Sprintf("There is no Cluster %s in this namespace: create it, or name another one in spec.clusterName.", cluster.Name),
		}
	})
}

// conflicts says that a ClusterEndpoint is kept from its Cluster by the endpoint that that has.
func conflicts(p rules.Plan) bool {
	return slices.ContainsFunc(p.Problems, func(x rules.Problem) bool { return x.Reason == rules.ReasonEndpointConflict && x.Of == "" })
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
		Generated: generated, Source: rules.Source(from), Surfaced: surfaced(e),
	}
}

// surfaced says that the Cluster was seen to have what a ClusterEndpoint says now.
func surfaced(e *clusterv1.ClusterEndpoint) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, clusterv1.ConditionSurfaced)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == e.Generation
}

// judge says what came of a ClusterEndpoint of a Cluster that has the endpoint now.
func judge(e *clusterv1.ClusterEndpoint, at services, now rules.HostPort, p rules.Plan) metav1.Condition {
	of := at.read(e)
	out := metav1.Condition{Type: clusterv1.ConditionSurfaced, Status: metav1.ConditionFalse}
	legacy := slices.IndexFunc(p.Problems, func(x rules.Problem) bool { return x.Reason == rules.ReasonLegacyEndpoint })
	mine := slices.DeleteFunc(slices.Clone(p.Problems), func(x rules.Problem) bool {
		return x.Of != "" || x.Reason != rules.ReasonEndpointConflict && x.Reason != rules.ReasonNoPrimary && x.Reason != rules.ReasonEndpointIncomplete
	})
	switch {
	case of.Same(now) && of.Generated && legacy >= 0:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, clusterv1.ReasonLegacyEndpoint, sentence(p.Problems[legacy].Message)
	case of.Same(now) && of.Lacks == nil:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, clusterv1.ReasonSurfaced, at[e.Name].note
	case !of.Generated && p.Primary != "" && p.Primary != e.Name:
		out.Reason, out.Message = clusterv1.ReasonNotPrimary, fmt.Sprintf("ClusterEndpoint %s is primary.", p.Primary)
	case len(mine) > 0:
		out.Reason, out.Message = mine[0].Reason, sentence(mine[0].Message)
	case of.Lacks != nil && p.Primary == e.Name:
		out.Reason, out.Message = of.Lacks.Reason, sentence(of.Lacks.Message)
		if now.Whole() {
			out.Message += fmt.Sprintf(" The Cluster keeps %s.", now)
		}
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

// say writes where each one's Service is reached, and its conditions. What is said no more is taken away.
func (r *Reconciler) say(ctx context.Context, all []clusterv1.ClusterEndpoint, at services, of func(*clusterv1.ClusterEndpoint) []metav1.Condition) error {
	for i := range all {
		e := &all[i]
		said, next := of(e), e.DeepCopy()
		next.Status.Host, next.Status.Port = at[e.Name].Host, at[e.Name].Port
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
