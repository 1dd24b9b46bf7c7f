package build

import (
	"fmt"
	"net/netip"
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
	grants []grant
	// zone of this proxy.
	zone string
	// selected is nil where the LoadBalancer sends nowhere from here.
	selected *selected
}

// selected is what a LoadBalancer needs to know of its TargetGroups.
type selected struct {
	// key of the selection.
	key string
	// check of the first TargetGroup, by name, that has one.
	check *clusterv1.HealthCheck
	none  bool
}

// outputs are one LoadBalancer's part of a Program.
type outputs struct {
	// frontends sorted by ID.
	frontends []*lb.Frontend
	// pools of the frontends, each once; families that they are of.
	pools             []*lb.Pool
	families          byFamily[bool]
	problems, refused []lb.Problem
}

// ours says that this proxy's pool serves the LoadBalancer's class, or that
// nobody can know whose it is.
func ours(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, pool string) bool {
	switch {
	case l.DeletionTimestamp != nil, ByProvider(l, class), class != nil && (class.Spec.Service != nil || class.Spec.HooksOnly != nil):
		return false
	}
	return class == nil || class.Spec.Proxy == nil || class.Spec.Proxy.Pool == pool
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

	if l.Spec.TrafficDistribution == clusterv1.PreferSameZone && in.zone == "" {
		own := &findings{object: f.object}
		own.without("spec.trafficDistribution", clusterv1.ReasonNotSupported, "a proxy doesn't know its zone, and serves all zones alike: the hub's operator starts it with --zone")
		out.refused = own.problems
	}

	sources, _ := readSources(l.Spec.SourceRanges)
	for i, p := range Ports(l) {
		if _, refused := Refusal(problems, p); refused {
			continue
		}
		x := f.port(p)
		var pools byFamily[*lb.Pool]
		for _, g := range in.grants {
			if g.socket.Protocol != protocol(p) || g.socket.Port != portNumber(p.Port) {
				continue
			}
			family := familyOf(g.socket.Address)
			switch {
			case g.socket.Address.IsUnspecified():
				x.refuse(fmt.Sprintf("spec.ports[%d]", i), clusterv1.ReasonAddressNotLocal, "a proxy doesn't know its host's addresses: the hub's operator starts it with --address")
				continue
			case !g.won:
				x.refuse(fmt.Sprintf("spec.ports[%d]", i), clusterv1.ReasonPortInUse, "another LoadBalancer has %s: use another port, or another address", g.socket)
				continue
			case sources.nobody(family):
				continue // Validate says so where the family is asked for
			}
			if pools[family] == nil {
				pools[family] = in.pool(p, family)
			}
			out.frontends = append(out.frontends, in.frontend(p, g, pools[family].ID, sources[family]))
		}
		for family, pool := range pools {
			if pool != nil {
				out.pools = append(out.pools, pool)
				out.families[family] = true
			}
		}
		out.refused = append(out.refused, x.problems...)
	}
	slices.SortFunc(out.frontends, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) })
	return out
}

// frontend is a port on one of its sockets.
func (in *inputs) frontend(p clusterv1.Port, g grant, pool lb.PoolID, sources []netip.Prefix) *lb.Frontend {
	l := in.object
	version, _ := proxyProtocol(l)
	return &lb.Frontend{
		ID: lb.FrontendID{
			Tenant: lb.TenantID(l.Namespace), LoadBalancer: l.Name,
			Address: g.socket.Address, Protocol: g.socket.Protocol, Port: g.socket.Port,
		},
		Name: p.Name, Pool: pool, Sources: sources,
		IdleTimeout:   firstDuration(0, l.Spec.IdleTimeout),
		ProxyProtocol: version,
		Assign:        in.class.Spec.Proxy.AssignAddresses && !g.own,
	}
}

// DrainTimeout is how long open connections of a LoadBalancer's members that leave may last; 0: they are never cut.
func DrainTimeout(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) time.Duration {
	return firstDuration(defaultDrainTimeout, l.Spec.DrainTimeout, defaultsOf(class).DrainTimeout)
}

// defaultsOf a class; it may be nil.
func defaultsOf(class *v1alpha1.LoadBalancerClass) v1alpha1.ClassDefaults {
	if class == nil || class.Spec.Defaults == nil {
		return v1alpha1.ClassDefaults{}
	}
	return *class.Spec.Defaults
}

// pool is where a port of an address of this family sends to.
func (in *inputs) pool(p clusterv1.Port, f family) *lb.Pool {
	l := in.object
	out := &lb.Pool{
		ID:    lb.PoolID(fmt.Sprintf("%s/%s/%d/%s", l.Name, protocol(p), p.Port, f.name())),
		Group: groupID(f, in.selected.key), Port: portNumber(p.Port), Hash: lb.HashFlow,
		FailOpen:     l.Spec.FailOpen == nil || *l.Spec.FailOpen,
		KeepClient:   in.class.Spec.Proxy.ClientAddress == v1alpha1.ClientAddressKeep,
		DrainTimeout: DrainTimeout(l, in.class),
	}
	if p.TargetPort != 0 {
		out.Port = portNumber(p.TargetPort)
	}
	if l.Spec.SessionAffinity == clusterv1.SessionAffinityClientIP {
		out.Hash = lb.HashClientIP
	}
	if l.Spec.TrafficDistribution == clusterv1.PreferSameZone {
		out.Zone = in.zone
	}
	out.Check = checkFrom(protocol(p), out.Port, ofAPIServers(l), usable(l.Spec.HealthCheck), in.selected.check, usable(defaultsOf(in.class).HealthCheck))
	if version, _ := proxyProtocol(l); protocol(p) == lb.TCP && out.Check.Port == out.Port && out.Check.Kind != lb.CheckNone {
		out.Check.ProxyProtocol = version
	}
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
