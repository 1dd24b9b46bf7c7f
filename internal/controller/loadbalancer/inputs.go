package loadbalancer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/kit"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	"fairlead.dev/fairlead/internal/proof"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inputs are what a LoadBalancer is judged by, beside the ledger and the proxies.
type inputs struct {
	class *v1alpha1.LoadBalancerClass // the one named, else the default; nil: none
	// tenant of the namespace; nil: the hub operator's.
	tenant    *v1alpha1.Tenant
	namespace *metav1.PartialObjectMetadata
	// targetGroups is the version at which the newest of the selected ones got its present content.
	targetGroups proof.Version
}

func (in *inputs) problems(l *clusterv1.LoadBalancer) []lb.Problem {
	return build.Validate(l, in.class, in.tenant)
}

func (f *facts) ports() []clusterv1.Port { return build.Ports(f.lb) }

// inputs reads them from the cache.
func (r *Reconciler) inputs(ctx context.Context, l *clusterv1.LoadBalancer) (*inputs, error) {
	in := &inputs{namespace: &metav1.PartialObjectMetadata{}}
	in.namespace.SetGroupVersionKind(kit.NamespaceKind)
	var err error
	if in.tenant, err = kit.TenantOf(ctx, r.Client, l.Namespace); err != nil {
		return nil, err
	}
	if err := r.Client.Get(ctx, types.NamespacedName{Name: l.Namespace}, in.namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", l.Namespace, err)
	}
	if l.Spec.InfrastructureRef != nil {
		return in, nil
	}
	name := l.Spec.ClassName
	if name == "" && in.tenant != nil {
		name = in.tenant.Spec.DefaultClass
	}
	if name == "" {
		in.class, err = r.defaultClass(ctx)
		return in, err
	}
	class := &v1alpha1.LoadBalancerClass{}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: name}, class); {
	case err == nil:
		in.class = class
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading class %s: %w", name, err)
	}
	return in, nil
}

// defaultClass is the class that is marked; of several the oldest.
func (r *Reconciler) defaultClass(ctx context.Context) (*v1alpha1.LoadBalancerClass, error) {
	list := &v1alpha1.LoadBalancerClassList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing classes: %w", err)
	}
	marked := slices.DeleteFunc(list.Items, func(c v1alpha1.LoadBalancerClass) bool {
		return c.Annotations[v1alpha1.AnnotationDefaultClass] != "true"
	})
	if len(marked) == 0 {
		return nil, nil
	}
	oldest := slices.MinFunc(marked, func(a, b v1alpha1.LoadBalancerClass) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &oldest, nil
}

// needs is what the LoadBalancer asks of the ledger. As many LoadBalancers of its namespace as services have something else,
// which the Tenant's quota counts too.
func (in *inputs) needs(l *clusterv1.LoadBalancer, services int) ipam.Needs {
	n := ipam.Needs{
		Ref:     ipam.Ref{Namespace: l.Namespace, Name: l.Name},
		Created: l.CreationTimestamp.Time,
		Owner:   ipam.Owner{Namespace: l.Namespace, Labels: in.namespace.GetLabels(), Quota: ipam.NoQuota},
		Ports:   ledger.PortsOf(build.Ports(l)),
		Pools:   l.Spec.AddressPools,
		Wanted:  parseAddresses(l.Spec.Addresses),
	}
	n.Families, n.Required = families(l)
	if in.class != nil {
		if len(n.Pools) == 0 {
			n.Pools = in.class.Spec.AddressPools
		}
		if in.class.Spec.Proxy != nil {
			n.ProxyPool = in.class.Spec.Proxy.Pool
		}
	}
	if in.tenant != nil {
		n.Owner.Tenant, n.Owner.TenantLabels = in.tenant.Name, in.tenant.Labels
		if q := in.tenant.Spec.Quota; q != nil {
			n.Owner.Quota = ipam.Quota{LoadBalancers: less(bound(q.LoadBalancers), services), Addresses: bound(q.Addresses), Ports: bound(q.Ports)}
		}
	}
	return n
}

// families are those that the LoadBalancer asks for, as a Service does: one is SingleStack unless the policy says
// otherwise, and two without a policy are required.
func families(l *clusterv1.LoadBalancer) (out []ipam.Family, required bool) {
	for _, f := range l.Spec.IPFamilies {
		out = append(out, ipam.Family(f))
	}
	policy := l.Spec.IPFamilyPolicy
	if policy == "" && len(out) == 2 {
		policy = clusterv1.RequireDualStack
	}
	if policy != clusterv1.PreferDualStack && policy != clusterv1.RequireDualStack {
		return out[:min(len(out), 1)], false
	}
	for _, f := range []ipam.Family{ipam.IPv4, ipam.IPv6} {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out, policy == clusterv1.RequireDualStack
}

// less takes what is used from a bound.
func less(bound, used int) int {
	if bound == ipam.Unbounded {
		return bound
	}
	return max(bound-used, 0)
}

func bound(n *int32) int {
	if n == nil {
		return ipam.Unbounded
	}
	return int(*n)
}

// targets notes the TargetGroups that the LoadBalancer selects.
func (r *Reconciler) targets(ctx context.Context, l *clusterv1.LoadBalancer, in *inputs, f *facts) error {
	selector, err := build.Selector(l)
	if err != nil {
		return nil // Validate says so
	}
	f.selector, f.targetKind = selector.String(), "TargetGroup."+v1alpha1.GroupVersion.Group
	if f.members, _ = build.Resolved(l, in.class, in.tenant); f.members != "" {
		members, _ := f.members.Selector(l) // the controller of members says what is wrong with it
		f.selector, f.targetKind = members.String(), string(f.members)
		if f.members == member.Machines {
			f.targetKind += "." + clusterv1.GroupVersion.Group
		}
	}
	if k := l.Spec.TargetKind; k != nil && f.members == "" {
		f.targetKind = k.Kind
		if k.APIGroup != "" {
			f.targetKind += "." + k.APIGroup
		}
	}
	groups, err := r.selected(ctx, l)
	if err != nil {
		return err
	}
	if f.barren, err = barren(groups, in.tenant, sync.OnceValues(func() (build.Admission, error) {
		_, a, err := kit.Admit(ctx, r.Client, l.Namespace, in.tenant)
		return a, err
	})); err != nil {
		return err
	}
	for i := range groups {
		f.groups = append(f.groups, groups[i].Name)
		in.targetGroups = max(in.targetGroups, r.Versions.Of(&groups[i]))
	}
	slices.Sort(f.groups)
	return nil
}

// barren is why no target of the groups may be sent to, where their specs are to blame; nil: one may, or
// there is none yet. admit judges by the Tenant's quota. A group that was accepted isn't read again: there are many LoadBalancers to a group.
func barren(groups []v1alpha1.TargetGroup, tenant *v1alpha1.Tenant, admit func() (build.Admission, error)) (*proofless, error) {
	var first *proofless
	for i := range groups {
		g := &groups[i]
		if len(g.Spec.Targets) == 0 {
			continue
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionAccepted)
		if c == nil || c.Status != metav1.ConditionFalse {
			return nil, nil
		}
		switch a, err := admit(); {
		case err != nil:
			return nil, err
		case build.Sendable(g, tenant, a) > 0:
			return nil, nil
		}
		if first == nil {
			first = &proofless{c.Reason, fmt.Sprintf("no target may be sent to: TargetGroup %s: %s", g.Name, c.Message)}
		}
	}
	return first, nil
}

// selected returns the TargetGroups that a LoadBalancer selects; they are shared with the cache.
func (r *Reconciler) selected(ctx context.Context, l *clusterv1.LoadBalancer) ([]v1alpha1.TargetGroup, error) {
	selector, err := build.Selector(l)
	if err != nil || selector.String() == "" {
		return nil, nil
	}
	list := &v1alpha1.TargetGroupList{}
	if err := r.Client.List(ctx, list, client.InNamespace(l.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the TargetGroups of LoadBalancer %s/%s: %w", l.Namespace, l.Name, err)
	}
	return list.Items, nil
}

// Prime puts the LoadBalancers that have no grant yet into the ledger's queue,
// so that a new leader serves the oldest first. The caches must be synced.
func (r *Reconciler) Prime(ctx context.Context) error {
	r.lookAtHosts()
	list := &clusterv1.LoadBalancerList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing LoadBalancers: %w", err)
	}
	var needs []ipam.Needs
	for i := range list.Items {
		l := &list.Items[i]
		ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
		if l.DeletionTimestamp != nil || len(r.Keeper.HeldBy(ref)) > 0 {
			continue
		}
		in, err := r.inputs(ctx, l)
		if err != nil {
			return err
		}
		if _, refused := refusedAll(in.problems(l), build.Ports(l)); !refused && !in.byService() && !in.byOthers() && !build.ByProvider(l, in.class) {
			needs = append(needs, in.needs(l, r.Services.Count(l.Namespace)))
		}
	}
	r.Keeper.Wait(needs)
	return nil
}
