package build

import (
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// defaultDrainTimeout is that of LoadBalancers whose class has none either.
const defaultDrainTimeout = 5 * time.Minute

// inputs are all that one LoadBalancer's part of a Program depends on.
type inputs struct {
	object *clusterv1.LoadBalancer
	class  *v1alpha1.LoadBalancerClass
	tenant *v1alpha1.Tenant
	grants []grant
	// selected is nil where the LoadBalancer sends nowhere from here.
	selected *selected
}

// selected is what a LoadBalancer needs to know of its TargetGroups.
type selected struct {
	group lb.GroupID
	// check of the first TargetGroup, by name, that has one.
	check *clusterv1.HealthCheck
	none  bool
}

// outputs are one LoadBalancer's part of a Program.
type outputs struct {
	// frontends sorted by ID.
	frontends []*lb.Frontend
	// pools of the frontends, each once.
	pools             []*lb.Pool
	problems, refused []lb.Problem
}

// ours says that this proxy's pool serves the LoadBalancer's class, or that
// nobody can know whose it is.
func ours(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, pool string) bool {
	return l.DeletionTimestamp == nil && (class == nil || class.Spec.Proxy == nil || class.Spec.Proxy.Pool == pool)
}

// serve builds one LoadBalancer's part from its inputs and the Problems that Validate found.
func serve(in inputs, problems []lb.Problem) outputs {
	out := outputs{problems: problems}
	l := in.object
	if _, refused := RefusalOfAll(problems); refused || in.selected == nil {
		return out
	}
	f := &findings{object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: l.Namespace, Name: l.Name}}
	if in.selected.none {
		f.without("spec.selector", clusterv1.ReasonNoTargets, "no TargetGroup is selected, clients are refused: label one, or mend the selector")
	}
	out.problems = append(slices.Clip(problems), f.problems...)

	var defaults v1alpha1.ClassDefaults
	if d := in.class.Spec.Defaults; d != nil {
		defaults = *d
	}
	for i, p := range Ports(l) {
		if _, refused := Refusal(problems, p); refused {
			continue
		}
		port, x := portNumber(p.Port), f.port(p)
		pool := &lb.Pool{
			ID:    lb.PoolID(fmt.Sprintf("%s/%s/%d/%s", l.Name, protocol(p), port, clusterv1.IPv4)),
			Group: in.selected.group, Port: port, Hash: lb.HashFlow,
			FailOpen:     l.Spec.FailOpen == nil || *l.Spec.FailOpen,
			DrainTimeout: firstDuration(defaultDrainTimeout, l.Spec.DrainTimeout, defaults.DrainTimeout),
		}
		if l.Spec.SessionAffinity == clusterv1.SessionAffinityClientIP {
			pool.Hash = lb.HashClientIP
		}
		if p.TargetPort != 0 {
			pool.Port = portNumber(p.TargetPort)
		}
		pool.Check = checkFrom(pool.Port, usable(l.Spec.HealthCheck), in.selected.check, usable(defaults.HealthCheck))
		served := false
		for _, g := range in.grants {
			switch {
			case g.socket.Protocol != protocol(p) || g.socket.Port != port:
				continue
			case !g.won:
				x.refuse(fmt.Sprintf("spec.ports[%d]", i), clusterv1.ReasonPortInUse, "another LoadBalancer has %s: use another port, or another address", g.socket)
				continue
			case !g.socket.Address.Is4():
				x.refuse(fmt.Sprintf("spec.ports[%d]", i), clusterv1.ReasonNotSupported, "IPv6 is not supported yet, %s is not served: use IPv4", g.socket)
				continue
			}
			served = true
			out.frontends = append(out.frontends, &lb.Frontend{
				ID: lb.FrontendID{
					Tenant: lb.TenantID(l.Namespace), LoadBalancer: l.Name,
					Address: g.socket.Address, Protocol: g.socket.Protocol, Port: g.socket.Port,
				},
				Name: p.Name, Pool: pool.ID,
				IdleTimeout: firstDuration(0, l.Spec.IdleTimeout),
			})
		}
		if served {
			out.pools = append(out.pools, pool)
		}
		out.refused = append(out.refused, x.problems...)
	}
	slices.SortFunc(out.frontends, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) })
	return out
}

// reuse takes the pointers of old for what is equal there, and says whether
// frontends, pools or Problems differ.
func (o *outputs) reuse(old *outputs) (frontends, pools, problems bool) {
	kept := 0
	for i, f := range o.frontends {
		at, found := slices.BinarySearchFunc(old.frontends, f, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) })
		if found && old.frontends[at].Equal(f) {
			o.frontends[i] = old.frontends[at]
			kept++
		}
	}
	frontends = kept != len(o.frontends) || kept != len(old.frontends)
	kept = 0
	for i, p := range o.pools {
		at := slices.IndexFunc(old.pools, func(x *lb.Pool) bool { return x.ID == p.ID })
		if at >= 0 && old.pools[at].Equal(p) {
			o.pools[i] = old.pools[at]
			kept++
		}
	}
	pools = kept != len(o.pools) || kept != len(old.pools)
	problems = !slices.Equal(o.problems, old.problems) || !slices.Equal(o.refused, old.refused)
	return frontends, pools, problems
}
