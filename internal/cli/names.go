package cli

import (
	"context"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What can be completed.
const (
	NamesOfTenants       = "tenants"
	NamesOfServices      = "services"
	NamesOfLoadBalancers = "loadbalancers"
	NamesOfNodes         = "nodes"
	NamesOfAddresses     = "addresses"
	NamesOfProxies       = "proxies"
	NamesOfTargetGroups  = "targetgroups"
	// NamesOfTargets is followed by the name of their TargetGroup, after a slash.
	NamesOfTargets = "targets/"
)

// Names lists candidates for completion, sorted: of one of the constants above. Services come as namespace/name. What the
// reader may not list is empty.
func (h *Hub) Names(ctx context.Context, what, namespace string) ([]string, error) {
	o := &Objects{}
	var out []string
	var err error
	switch what {
	case NamesOfTenants:
		o.Tenants, err = list(ctx, h, o, what, &v1alpha1.TenantList{}, func(l *v1alpha1.TenantList) []v1alpha1.Tenant { return l.Items })
		out = namesOf(o.Tenants)
	case NamesOfAddresses:
		o.Addresses, err = list(ctx, h, o, what, &v1alpha1.AddressList{}, func(l *v1alpha1.AddressList) []v1alpha1.Address { return l.Items })
		for _, a := range o.Addresses {
			out = append(out, a.Spec.Address)
		}
	case NamesOfProxies:
		o.Proxies, err = list(ctx, h, o, what, &v1alpha1.ProxyList{}, func(l *v1alpha1.ProxyList) []v1alpha1.Proxy { return l.Items })
		out = namesOf(o.Proxies)
	case NamesOfLoadBalancers, NamesOfServices:
		o.LoadBalancers, err = list(ctx, h, o, what, &clusterv1.LoadBalancerList{}, func(l *clusterv1.LoadBalancerList) []clusterv1.LoadBalancer { return l.Items }, client.InNamespace(namespace))
		if out = namesOf(o.LoadBalancers); what == NamesOfServices {
			out = nil
			for _, l := range o.LoadBalancers {
				if key, ok := service.Origin(l); ok {
					out = append(out, key.String())
				}
			}
		}
	default:
		o.TargetGroups, err = list(ctx, h, o, what, &v1alpha1.TargetGroupList{}, func(l *v1alpha1.TargetGroupList) []v1alpha1.TargetGroup { return l.Items }, client.InNamespace(namespace))
		for _, g := range o.TargetGroups {
			switch {
			case what == NamesOfTargetGroups:
				out = append(out, g.Name)
			case what == NamesOfTargets+g.Name, what == NamesOfNodes && mirrorsNodes(g):
				for i := range g.Spec.Targets {
					out = append(out, g.Spec.Targets[i].Name)
				}
			}
		}
	}
	slices.Sort(out)
	return out, err
}

func namesOf[T any, P interface {
	*T
	client.Object
}](all []*T) []string {
	var out []string
	for _, o := range all {
		out = append(out, P(o).GetName())
	}
	return out
}
