package build

import (
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// Objects are all objects of the hub that a Program is built from, in any
// order. They are not changed, and must not be while a Builder has them.
type Objects struct {
	LoadBalancers []*clusterv1.LoadBalancer
	TargetGroups  []*v1alpha1.TargetGroup
	Classes       []*v1alpha1.LoadBalancerClass
	Addresses     []*v1alpha1.Address
	Tenants       []*v1alpha1.Tenant
	// Names are what names of targets stand for.
	Names map[string][]netip.Addr
}

// Options say for whom is built.
type Options struct {
	// ProxyPool is this proxy's pool: other pools' LoadBalancers and Addresses are not ours.
	ProxyPool string
	// Addresses are this host's own, on which what is granted on all hosts' is served.
	Addresses []netip.Addr
	// Zone is this proxy's; empty: none, and no zone is preferred.
	Zone string
	// Check is the data plane's; nil: it can express everything. It names LoadBalancers, whole or by port.
	Check func(*lb.Snapshot) []lb.Problem
	// LastGood is what was served last; what Check refuses keeps the form that it has there.
	LastGood *lb.Program
}

// Whole builds the Program of all objects at once. It depends on its
// arguments alone, whatever their order. Health is left nil.
func Whole(o Objects, opts Options) *lb.Program {
	return New(opts).fill(o)
}

// fill sets all objects.
func (b *Builder) fill(o Objects) *lb.Program {
	b.SetNames(o.Names)
	for _, x := range o.Classes {
		b.Set(x)
	}
	for _, x := range o.Tenants {
		b.Set(x)
	}
	for _, x := range o.TargetGroups {
		b.Set(x)
	}
	for _, x := range o.Addresses {
		b.Set(x)
	}
	for _, x := range o.LoadBalancers {
		b.Set(x)
	}
	return b.Program()
}
