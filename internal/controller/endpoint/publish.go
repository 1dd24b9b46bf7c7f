package endpoint

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	rules "fairlead.dev/fairlead/internal/endpoint"
	"fairlead.dev/fairlead/internal/member"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookForNames is when a Cluster is looked at again of whose LoadBalancers none is known to be its control plane's: its
// control plane object, which isn't watched, may name one.
const lookForNames = time.Minute

// fronts are the LoadBalancers that have to do with a Cluster's endpoint.
type fronts struct {
	// of its control plane, sorted by name.
	of []*clusterv1.LoadBalancer
	// former ones say that they published one, and are of no control plane any more.
	former []*clusterv1.LoadBalancer
	// primary is the one whose endpoint is published; nil: none's is, for that reason, or because there is none.
	primary *clusterv1.LoadBalancer
	problem *rules.Problem
	// foreign is why the one that the Cluster names isn't its own; "": it is, or isn't there.
	foreign string
	// exists: there is a LoadBalancer of the name that the Cluster gives.
	exists bool
	// unsaid: of some it isn't known of what role they are, and the Cluster names none.
	unsaid bool
	// refused is why none of them publishes anything; "": they may.
	refused string
}

// fronts reads those of a Cluster that names one of them, or none. Those that are being deleted count no more.
func (r *Reconciler) fronts(ctx context.Context, cluster types.NamespacedName, named string, has rules.HostPort) (*fronts, error) {
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the LoadBalancers of namespace %s: %w", cluster.Namespace, err)
	}
	out := &fronts{}
	for i := range list.Items {
		l := &list.Items[i]
		of := member.ClusterName(l)
		out.exists = out.exists || l.Name == named
		switch {
		case of != "" && of != cluster.Name:
			if l.Name == named {
				out.foreign = fmt.Sprintf("LoadBalancer %s is Cluster %s's", l.Name, of)
			}
		case of == "" && l.Name != named:
		case l.DeletionTimestamp != nil:
		case member.RoleOf(l, named) == clusterv1.RoleControlPlane:
			out.of = append(out.of, l.DeepCopy())
		default:
			out.unsaid = out.unsaid || l.Spec.Role == "" && named == ""
			if meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished) != nil {
				out.former = append(out.former, l.DeepCopy())
			}
		}
	}
	slices.SortFunc(out.of, func(a, b *clusterv1.LoadBalancer) int { return strings.Compare(a.Name, b.Name) })
	if len(out.of) == 0 && named == "" {
		return out, nil
	}
	var tenant *v1alpha1.Tenant
	if r.Elsewhere == nil { // else Tenants are the hub's
		var err error
		if tenant, err = kit.TenantOf(ctx, r.Client, cluster.Namespace); err != nil {
			return nil, err
		}
	}
	if tenant != nil { // whoever writes LoadBalancers there could send a Cluster's users elsewhere
		out.refused = fmt.Sprintf("in the namespace of Tenant %s no endpoint is published: make the LoadBalancer, and its Cluster, in a namespace of no Tenant", tenant.Name)
		return out, nil
	}
	var facts []rules.LoadBalancer
	for _, l := range out.of {
		facts = append(facts, front(l))
	}
	chosen, problem := rules.Choose(facts, named, has)
	out.problem = problem
	for _, l := range out.of {
		if chosen != nil && l.Name == chosen.Name {
			out.primary = l
		}
	}
	return out, nil
}

// fact is what the rules ask of the one that is published; nil: none is.
func (f *fronts) fact() *rules.LoadBalancer {
	if f.primary == nil {
		return nil
	}
	out := front(f.primary)
	return &out
}

// front is what the rules ask of a LoadBalancer.
func front(l *clusterv1.LoadBalancer) rules.LoadBalancer {
	out := rules.LoadBalancer{Name: l.Name, Spec: hostPort(l.Spec.Endpoint)}
	for i := range l.Spec.AlternateEndpoints {
		out.Alternates = append(out.Alternates, hostPort(&l.Spec.AlternateEndpoints[i]))
	}
	tcp := slices.IndexFunc(build.Ports(l), func(p clusterv1.Port) bool { return p.Protocol == clusterv1.ProtocolTCP || p.Protocol == "" })
	if tcp >= 0 && len(l.Status.Addresses) > 0 {
		out.Granted = rules.HostPort{Host: l.Status.Addresses[0].Value, Port: build.Ports(l)[tcp].Port}
	}
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionProgrammed)
	out.Up = c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == l.Generation && !out.Granted.Empty()
	return out
}

func hostPort(e *clusterv1.Endpoint) rules.HostPort {
	if e == nil {
		return rules.HostPort{}
	}
	return rules.HostPort{Host: e.Host, Port: e.Port}
}

// confirm reads the one that is to be published from the API server itself, before somebody is told an address that it may
// have lost since: what reaches a Cluster isn't taken back. An error that says so is a conflict.
func (r *Reconciler) confirm(ctx context.Context, f *fronts) error {
	l := &clusterv1.LoadBalancer{}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(f.primary), l)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading LoadBalancer %s/%s: %w", f.primary.Namespace, f.primary.Name, err)
	}
	if err != nil || l.UID != f.primary.UID || l.DeletionTimestamp != nil || !same(front(l), front(f.primary)) {
		return apierrors.NewConflict(clusterv1.GroupVersion.WithResource("loadbalancers").GroupResource(), f.primary.Name, fmt.Errorf("it has changed"))
	}
	return nil
}

func same(a, b rules.LoadBalancer) bool {
	return a.Up == b.Up && a.Spec == b.Spec && a.Granted == b.Granted
}

// tellFronts writes to the LoadBalancers what the Cluster says: their role, which proxies can't know otherwise, and to the one
// that is published the endpoint, where it had none.
func (r *Reconciler) tellFronts(ctx context.Context, f *fronts, h rules.HostPort) error {
	for _, l := range f.of {
		old := l.DeepCopy()
		l.Spec.Role = clusterv1.RoleControlPlane
		if l == f.primary && h.Whole() {
			l.Spec.Endpoint = &clusterv1.Endpoint{Host: h.Host, Port: h.Port}
		}
		if l.Spec.Role == old.Spec.Role && hostPort(l.Spec.Endpoint) == hostPort(old.Spec.Endpoint) {
			continue
		}
		if err := r.Client.Patch(ctx, l, client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kit.FieldManager)); err != nil {
			return fmt.Errorf("writing role and endpoint to LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
		}
		r.Logger.Info("loadbalancer told", "loadbalancer", l.Namespace+"/"+l.Name, "role", string(l.Spec.Role), "endpoint", hostPort(l.Spec.Endpoint).String())
	}
	return nil
}

// sayFronts writes the condition of each. What is said no more is taken away.
func (r *Reconciler) sayFronts(ctx context.Context, f *fronts, of func(*clusterv1.LoadBalancer) metav1.Condition) error {
	for _, l := range f.of {
		next := l.DeepCopy()
		c := of(l)
		c.Type, c.ObservedGeneration = clusterv1.ConditionEndpointPublished, l.Generation
		meta.SetStatusCondition(&next.Status.Conditions, c)
		if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
			return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
		}
	}
	for _, l := range f.former {
		next := l.DeepCopy()
		meta.RemoveStatusCondition(&next.Status.Conditions, clusterv1.ConditionEndpointPublished)
		if _, err := kit.PatchStatusAsRead(ctx, r.Client, l, next); err != nil {
			return fmt.Errorf("LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
		}
	}
	return nil
}

// published says what came of a LoadBalancer's endpoint, whose Cluster has the endpoint now.
func (f *fronts) published(l *clusterv1.LoadBalancer, now rules.HostPort, p rules.Plan) metav1.Condition {
	said := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Status: status, Reason: reason, Message: message}
	}
	no := func(reason, message string) metav1.Condition {
		return said(metav1.ConditionFalse, reason, sentence(message))
	}
	at := slices.IndexFunc(p.Problems, func(x rules.Problem) bool {
		return x.Of == rules.FromLoadBalancer && x.Reason == rules.ReasonEndpointConflict || x.Of == "" && x.Reason == rules.ReasonEndpointIncomplete
	})
	fact := front(l)
	switch {
	case f.refused != "":
		return no(clusterv1.ReasonNotSupported, f.refused)
	case f.primary == nil && f.problem != nil:
		return no(f.problem.Reason, f.problem.Message)
	case f.primary != l:
		return no(clusterv1.ReasonNotPrimary, fmt.Sprintf("LoadBalancer %s is the one whose endpoint the Cluster has", f.primary.Name))
	case now.Whole() && (fact.Spec.Same(now) || slices.ContainsFunc(fact.Alternates, now.Same)):
		if elsewhere(l, now.Host) {
			return said(metav1.ConditionTrue, clusterv1.ReasonEndpointElsewhere, fmt.Sprintf("The Cluster has %s, and the LoadBalancer is served on %s: want that address in spec.addresses, or see that something forwards from there.", now, fact.Granted.Host))
		}
		return said(metav1.ConditionTrue, clusterv1.ReasonPublished, "")
	case at >= 0:
		return no(p.Problems[at].Reason, p.Problems[at].Message)
	case p.Waits != "":
		return no(clusterv1.ReasonPending, p.Waits)
	}
	return no(clusterv1.ReasonPending, "the Cluster's endpoint is to come")
}

// elsewhere says that a host is an address, and none that a LoadBalancer is served on.
func elsewhere(l *clusterv1.LoadBalancer, host string) bool {
	want, err := netip.ParseAddr(host)
	if err != nil || len(l.Status.Addresses) == 0 {
		return false
	}
	return !slices.ContainsFunc(l.Status.Addresses, func(a clusterv1.LoadBalancerAddress) bool {
		is, err := netip.ParseAddr(a.Value)
		return err != nil || is.Unmap() == want.Unmap() // a name may lead there
	})
}
