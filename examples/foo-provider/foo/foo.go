// Package foo is a provider on the public SDK: it turns what is wanted into calls of the Foo cloud.
package foo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/provider"
)

// Settle is how long the Foo cloud may still send new connections to a member that it calls draining.
const Settle = time.Second

// Options of the controller of FooLoadBalancers.
func Options(cloud *balancer.Cloud) provider.Options {
	return provider.Options{Kind: &api.FooLoadBalancer{}, Provider: &Provider{cloud}, Settle: Settle}
}

// Provider speaks to the Foo cloud.
type Provider struct{ Cloud *balancer.Cloud }

// Describe reads a load balancer.
func (p *Provider) Describe(_ context.Context, ref provider.Ref) (provider.State, error) {
	info, err := p.Cloud.Get(ref.ID, ref.Owner)
	return stateOf(info), translate(err)
}

// Ensure makes it or changes it.
func (p *Provider) Ensure(_ context.Context, w provider.Wanted) (provider.State, error) {
	spec := balancer.Spec{}
	if o, ok := w.Object.(*api.FooLoadBalancer); ok {
		spec.MaxConnections = o.Spec.MaxConnections
	}
	// A host that is a name is somebody's alias for what the cloud chooses.
	if a, err := netip.ParseAddr(w.Endpoint.Host); err == nil {
		spec.Address = a
	}
	for _, x := range w.Ports {
		spec.Ports = append(spec.Ports, balancer.Port{Port: uint16(x.Port), Target: uint16(x.TargetPort)})
	}
	info, err := p.Cloud.Ensure(w.ID, w.Owner, spec)
	return stateOf(info), translate(err)
}

// SetMembers tells the cloud all members.
func (p *Provider) SetMembers(_ context.Context, ref provider.Ref, members []provider.Member) error {
	var all []balancer.Member
	for _, m := range members {
		all = append(all, balancer.Member{Address: m.Address, Draining: m.Draining})
	}
	return translate(p.Cloud.SetMembers(ref.ID, all))
}

// Delete ends it, which in this cloud takes no time; the next call finds nothing.
func (p *Provider) Delete(_ context.Context, ref provider.Ref) error {
	return translate(p.Cloud.Delete(ref.ID, ref.Owner))
}

// translate gives the cloud's errors their meaning.
func translate(err error) error {
	if errors.Is(err, balancer.ErrNotFound) {
		return fmt.Errorf("foo: %w", provider.ErrNotFound)
	}
	if errors.Is(err, balancer.ErrRefused) {
		return provider.Terminal("foo: %w", err)
	}
	return err
}

func stateOf(i balancer.Info) provider.State {
	s := provider.State{ID: i.ID}
	if len(i.Spec.Ports) > 0 {
		first := slices.MinFunc(i.Spec.Ports, func(a, b balancer.Port) int { return int(a.Port) - int(b.Port) })
		s.Endpoint = clusterv1.Endpoint{Host: i.Spec.Address.String(), Port: int32(first.Port)}
	}
	for _, m := range i.Members {
		phase := provider.MemberAdding
		switch {
		case !m.Applied:
		case m.Draining:
			phase = provider.MemberDraining
		case m.Healthy:
			phase = provider.MemberActive
		default:
			phase = provider.MemberUnhealthy
		}
		s.Members = append(s.Members, provider.MemberState{Address: m.Address, Health: phase, Connections: &m.Connections})
	}
	return s
}
