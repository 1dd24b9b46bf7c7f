package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/provider/contract"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// defaultDrain is how long open connections run on where neither the LoadBalancer nor its class says it.
const defaultDrain = 5 * time.Minute

// selection is whom a LoadBalancer sends to.
type selection struct {
	targets []target
	// groups are the TargetGroups that are selected, as they were read.
	groups []contract.ObservedTargetGroup
	// drainFor is how long open connections may run on, where the target doesn't say it.
	drainFor time.Duration
}

// targets are those of a LoadBalancer. Those beyond the Tenant's quota come last.
func (r *reconciler) targets(ctx context.Context, l *clusterv1.LoadBalancer) (selection, error) {
	s, err := build.Selector(l)
	if err != nil {
		return selection{}, nil // as the LoadBalancer's conditions say
	}
	all := &v1alpha1.TargetGroupList{}
	if err := r.client.List(ctx, all, client.InNamespace(l.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return selection{}, fmt.Errorf("listing TargetGroups: %w", err)
	}
	tenant, err := r.tenant(ctx, l.Namespace)
	if err != nil {
		return selection{}, err
	}
	var out selection
	if out.drainFor, err = r.drainFor(ctx, l); err != nil {
		return selection{}, err
	}
	var groups []*v1alpha1.TargetGroup // of the whole namespace, as the quota is
	for i := range all.Items {
		groups = append(groups, &all.Items[i])
	}
	admits, admission := build.Reach(tenant), build.Admit(groups, tenant)
	slices.SortFunc(groups, func(a, b *v1alpha1.TargetGroup) int { return cmp.Compare(a.Name, b.Name) })
	var beyond []target
	for _, g := range groups {
		if !s.Matches(labels.Set(g.Labels)) {
			continue
		}
		out.groups = append(out.groups, contract.ObservedTargetGroup{Name: g.Name, UID: string(g.UID), Generation: g.Generation})
		_, disabled := g.Annotations[clusterv1.DisabledAnnotation]
		for j := range g.Spec.Targets {
			t := r.target(l, g, j, disabled && g.DeletionTimestamp == nil, admits)
			t.drainFor = out.drainFor
			if d := g.Spec.Targets[j].DrainFor; d != nil {
				t.drainFor = d.Duration
			}
			if t.beyond = admission.LeavesOut(g, j); t.beyond {
				beyond = append(beyond, t)
			} else {
				out.targets = append(out.targets, t)
			}
		}
	}
	out.targets = append(out.targets, beyond...)
	return out, nil
}

func (r *reconciler) target(l *clusterv1.LoadBalancer, g *v1alpha1.TargetGroup, i int, disabled bool, admits func(netip.Addr) bool) target {
	x := &g.Spec.Targets[i]
	t := target{Member: Member{Name: x.Name, Zone: x.Zone, Weight: 1, Draining: g.Drains(i)}, disabled: disabled}
	if x.Weight != nil {
		t.Weight = *x.Weight
	}
	t.Address = addressOf(x, l.Spec.IPFamilies)
	ip, err := netip.ParseAddr(t.Address)
	switch {
	case t.Address == "":
		t.missing = &problem{contract.ReasonNoAddress, "It has no address of the LoadBalancer's family yet."}
	case err == nil && !admits(ip):
		t.missing = &problem{contract.ReasonTargetNotAllowed, fmt.Sprintf("%s lies in none of the Tenant's targetCIDRs: the hub's operator adds its range.", ip)}
	case err != nil && !r.Supports.Names:
		t.missing = &problem{contract.ReasonNotSupported, fmt.Sprintf("It is known by the name %s alone, and the provider sends to addresses only: write an address beside it.", t.Address)}
	}
	if t.missing != nil {
		t.Address = ""
	}
	return t
}

// addressOf a target in the first of the families; none is said: the one that proxies would use.
func addressOf(t *v1alpha1.Target, families []clusterv1.IPFamily) string {
	if len(families) == 0 {
		return t.ServedAddress()
	}
	for _, a := range t.Addresses {
		ip, err := netip.ParseAddr(a)
		if err == nil && ip.Zone() == "" && ip.Unmap().Is4() == (families[0] == clusterv1.IPv4) {
			return ip.Unmap().String()
		}
	}
	return ""
}

// drainFor is how long open connections of a LoadBalancer's targets may run on, by itself or its class; 0: without bound. A class that
// isn't there, or may not be read, says nothing: members come and go all the same.
func (r *reconciler) drainFor(ctx context.Context, l *clusterv1.LoadBalancer) (time.Duration, error) {
	if l.Spec.DrainTimeout != nil {
		return l.Spec.DrainTimeout.Duration, nil
	}
	d, _, err := r.defaults(ctx, l)
	if err == nil && d.DrainTimeout != nil {
		return d.DrainTimeout.Duration, nil
	}
	return defaultDrain, err
}

// defaults are those of a LoadBalancer's class; of none, where there is no class. False: it has one that may not be read.
func (r *reconciler) defaults(ctx context.Context, l *clusterv1.LoadBalancer) (v1alpha1.ClassDefaults, bool, error) {
	c := &v1alpha1.LoadBalancerClass{}
	if l.Spec.ClassName == "" {
		return v1alpha1.ClassDefaults{}, true, nil
	}
	err := r.live.Get(ctx, types.NamespacedName{Name: l.Spec.ClassName}, c)
	switch {
	case apierrors.IsForbidden(err):
		return v1alpha1.ClassDefaults{}, false, nil
	case err != nil && !apierrors.IsNotFound(err):
		return v1alpha1.ClassDefaults{}, false, fmt.Errorf("reading LoadBalancerClass %s: %w", l.Spec.ClassName, err)
	case c.Spec.Defaults == nil:
		return v1alpha1.ClassDefaults{}, true, nil
	}
	return *c.Spec.Defaults, true, nil
}

// healthCheck of a LoadBalancer's targets, where the technology has any but a connection. Of one whose class may not be read only its own is known.
func (r *reconciler) healthCheck(ctx context.Context, l *clusterv1.LoadBalancer, controlPlane bool) (*clusterv1.HealthCheck, error) {
	if l.Spec.HealthCheck != nil || !r.Supports.HealthCheck {
		return l.Spec.HealthCheck, nil
	}
	class, known, err := r.defaults(ctx, l)
	if err != nil || !known {
		return nil, err
	}
	if controlPlane {
		l = l.DeepCopy()
		l.Spec.Role = clusterv1.RoleControlPlane
	}
	return build.HealthCheckElsewhere(l, class.HealthCheck), nil
}

// tenant that a namespace belongs to, nil if it is of none; of several the oldest.
func (r *reconciler) tenant(ctx context.Context, namespace string) (*v1alpha1.Tenant, error) {
	all := &v1alpha1.TenantList{}
	if err := r.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Tenants: %w", err)
	}
	var found *v1alpha1.Tenant
	for i := range all.Items {
		t := &all.Items[i]
		if t.NamespaceName() != namespace {
			continue
		}
		if found == nil || t.CreationTimestamp.Before(&found.CreationTimestamp) {
			found = t
		}
	}
	return found, nil
}
