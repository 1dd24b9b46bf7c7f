package endpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Reasons of Problems; each comment says what the user does.
const (
	// ReasonEndpointConflict: two endpoints of one Cluster differ, and the one in use stays; make them the same, or say by
	// annotation that the other is meant.
	ReasonEndpointConflict = "EndpointConflict"
	// ReasonNoPrimary: there are several ClusterEndpoints, and not one of them is primary; set spec.primary on one.
	ReasonNoPrimary = "NoPrimary"
	// ReasonNotPrimary: the Cluster has another one's endpoint; nothing to do, unless this one is meant.
	ReasonNotPrimary = "NotPrimary"
	// ReasonEndpointIncomplete: host or port of an endpoint is missing; add it, or take both away.
	ReasonEndpointIncomplete = "EndpointIncomplete"
	// ReasonInfraCompetes: the InfraCluster makes an endpoint of its own; switch that off in the field that the message names.
	ReasonInfraCompetes = "InfraCompetes"
	// ReasonInfraDiffers: the InfraCluster has another endpoint than the Cluster; make them the same.
	ReasonInfraDiffers = "InfraDiffers"
	// ReasonLBMatchesConfig: the load balancer outside exists with another endpoint than the LoadBalancer's; make them the same.
	ReasonLBMatchesConfig = "LBMatchesConfig"
	// ReasonLegacyEndpoint: the endpoint comes from the InfraCluster, a way that is to end; make a ClusterEndpoint of it.
	ReasonLegacyEndpoint = "LegacyEndpoint"
)

// Problem is what somebody should see to: cause, then fix.
type Problem struct {
	Reason, Message string
	// Of is whose endpoint it speaks of, where that isn't the Cluster's or a ClusterEndpoint's.
	Of Source
}

// Generated is a ClusterEndpoint that we keep.
type Generated struct {
	HostPort
	// Source owns it.
	Source Source
}

// Plan is what is to be written. A zero HostPort: nothing.
type Plan struct {
	// Generated ClusterEndpoint as it is to be; nil: there is to be none. It is written before the Cluster.
	Generated *Generated
	// Primary is the name of the ClusterEndpoint that somebody made and that counts.
	Primary string
	// Cluster's spec.controlPlaneEndpoint, host and port in one write that fails if the Cluster has changed.
	Cluster HostPort
	// Restores: the Cluster had that before.
	Restores bool
	// InfraCluster's spec.controlPlaneEndpoint, written when the Cluster has it.
	InfraCluster HostPort
	// LoadBalancer's spec.endpoint.
	LoadBalancer HostPort
	// Provider kind's spec.endpoint.
	Provider HostPort
	// ProviderMayStart: the provider kind may do something outside, for its endpoint is settled as far as it will be.
	ProviderMayStart bool
	// Waits is what is waited for; empty: nothing.
	Waits string
	// Problems, sorted by reason.
	Problems []Problem
}

func (p *Plan) problem(reason, format string, args ...any) {
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (p *Plan) problemOf(of Source, reason, format string, args ...any) {
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: fmt.Sprintf(format, args...), Of: of})
}

// Decide says who is to be told which endpoint.
func Decide(f Facts) Plan {
	var p Plan
	gen := f.generated()
	if f.Still != "" {
		p.Waits = f.Still
		if gen != nil {
			p.Generated = &Generated{gen.HostPort, gen.Source}
		}
		return p
	}
	primary := f.primary(&p)
	settled := primary != nil && primary.Lacks == nil
	wanted := f.wanted(&p, primary)
	value := f.surface(&p, wanted, settled)
	if len(f.explicit()) == 0 || primary != nil && !settled {
		f.generate(&p, value)
	}
	f.pushToLoadBalancer(&p, value)
	f.pushToProvider(&p)
	f.pushToInfraCluster(&p, value, settled)
	slices.SortStableFunc(p.Problems, func(a, b Problem) int { return strings.Compare(a.Reason, b.Reason) })
	return p
}

// primary is the ClusterEndpoint that somebody made and that counts; nil: none.
func (f *Facts) primary(p *Plan) *ClusterEndpoint {
	all := f.explicit()
	if len(all) > 1 {
		marked := slices.DeleteFunc(slices.Clone(all), func(e ClusterEndpoint) bool { return !e.Primary })
		if len(marked) != 1 {
			var names []string
			for _, e := range all {
				names = append(names, e.Name)
			}
			p.problem(ReasonNoPrimary, "%d of the ClusterEndpoints %s say that they are primary: set spec.primary on just one", len(marked), strings.Join(names, ", "))
			return nil
		}
		all = marked
	}
	if len(all) == 0 {
		return nil
	}
	p.Primary = all[0].Name
	return &all[0]
}

// wanted is the endpoint that the Cluster is to have; empty: nobody has said, or what was said isn't there yet.
func (f *Facts) wanted(p *Plan, primary *ClusterEndpoint) HostPort {
	gen, l := f.generated(), f.LoadBalancer
	if primary != nil && primary.Lacks != nil {
		p.Problems = append(p.Problems, *primary.Lacks)
		p.Waits = fmt.Sprintf("ClusterEndpoint %s goes before it, and its Service gives no host and port yet", primary.Name)
	}
	switch {
	case primary != nil && primary.Lacks == nil:
		return primary.HostPort
	case f.Cluster.Whole():
		return f.Cluster
	case primary == nil && len(f.explicit()) > 1:
		return HostPort{} // somebody is about to say which
	case gen != nil && gen.Whole() && f.had(gen):
		p.Restores = true // somebody replaced the Cluster, and wiped what was surfaced
		return gen.HostPort
	case l == nil, primary != nil:
		return HostPort{}
	case l.Spec.Empty() && l.Granted.Empty():
		p.Waits = fmt.Sprintf("LoadBalancer %s has no address yet", l.Name)
	case !l.Up:
		p.Waits = fmt.Sprintf("LoadBalancer %s is not served yet", l.Name)
	case l.Unsure != "":
		p.Waits = fmt.Sprintf("that LoadBalancer %s is served isn't sure: %s", l.Name, l.Unsure)
	case l.Spec.Whole():
		return l.Spec
	case l.Spec.Empty():
		return l.Granted
	}
	return HostPort{}
}

// surface brings the wanted endpoint to the Cluster, if that may be, and returns the one that the Cluster then has.
func (f *Facts) surface(p *Plan, wanted HostPort, explicit bool) HostPort {
	switch {
	case !f.Cluster.Whole() && !f.Cluster.Empty() && !wanted.completes(f.Cluster):
		p.problem(ReasonEndpointIncomplete, "the Cluster's spec.controlPlaneEndpoint has host %q and port %d, which is no endpoint%s: set both, or neither", f.Cluster.Host, f.Cluster.Port, other(wanted))
		return HostPort{}
	case !wanted.Whole():
		return HostPort{}
	case !f.Cluster.Whole():
		p.Cluster = wanted
		return wanted
	case f.Cluster.Same(wanted):
		return f.Cluster
	case explicit && (!f.InUse || f.Accepted.Same(wanted)):
		p.Cluster = wanted
		return wanted
	}
	p.problem(ReasonEndpointConflict, "the Cluster has %s, which kubeconfigs and nodes use, and its ClusterEndpoint %s says %s: make them the same, or accept %s by annotation", f.Cluster, p.Primary, wanted, wanted)
	return f.Cluster
}

func other(h HostPort) string {
	if h.Whole() {
		return fmt.Sprintf(", and isn't a part of %s either", h)
	}
	return ""
}

// generate keeps a ClusterEndpoint that mirrors the Cluster, where nobody made one, or the one that counts has no host and port now.
func (f *Facts) generate(p *Plan, value HostPort) {
	if !value.Whole() {
		return
	}
	source := f.source(value)
	p.Generated = &Generated{value, source}
	if source == FromInfraCluster {
		from := "the InfraCluster" // which may be gone, or not to be read
		if i := f.InfraCluster; i != nil {
			from = i.Kind + " " + i.Name
		}
		p.problem(ReasonLegacyEndpoint, "the endpoint %s comes from spec.controlPlaneEndpoint of %s, a way that is to end: have its provider make a ClusterEndpoint, or make one", value, from)
	}
}

// source is what an endpoint came from. What was said once stays: later the same endpoint is on all of them.
func (f *Facts) source(value HostPort) Source {
	gen := f.generated()
	switch {
	case gen != nil && gen.Same(value) && gen.Source != "":
		return gen.Source
	case !f.Cluster.Whole(), f.LoadBalancer != nil && f.LoadBalancer.Granted.Same(value):
		return FromLoadBalancer // where the Cluster hasn't one, who else
	case f.InfraCluster != nil && f.InfraCluster.Endpoint.Same(value):
		return FromInfraCluster
	case f.ControlPlane.Same(value):
		return FromControlPlane
	}
	return FromCluster
}

// pushToLoadBalancer fills an empty spec.endpoint; another one is an error.
func (f *Facts) pushToLoadBalancer(p *Plan, value HostPort) {
	l := f.LoadBalancer
	switch {
	case l == nil || !value.Whole() || l.Spec.Same(value) || slices.ContainsFunc(l.Alternates, value.Same):
	case l.Spec.Empty() || value.completes(l.Spec):
		p.LoadBalancer = value
	default:
		p.problemOf(FromLoadBalancer, ReasonEndpointConflict, "the Cluster has %s, and its LoadBalancer %s has %s: make them the same, or move the LoadBalancer's to spec.alternateEndpoints", value, l.Name, l.Spec)
	}
}

// pushToProvider is the gate: the provider kind does nothing outside before it has been told what was said elsewhere.
func (f *Facts) pushToProvider(p *Plan) {
	l := f.LoadBalancer
	if l == nil || l.Provider == nil {
		return
	}
	said := l.Spec
	if p.LoadBalancer.Whole() {
		said = p.LoadBalancer
	}
	switch v := l.Provider; {
	case !said.Whole() || v.Spec.Same(said):
		p.ProviderMayStart = true
	case v.Exists && v.Spec.Whole():
		p.ProviderMayStart = true
		p.problemOf(FromLoadBalancer, ReasonLBMatchesConfig, "the load balancer outside exists with %s, and LoadBalancer %s has %s: make them the same", v.Spec, l.Name, said)
	default:
		p.Provider = said
	}
}

// pushToInfraCluster tells an InfraCluster that would wait for ever, or make an endpoint of its own.
func (f *Facts) pushToInfraCluster(p *Plan, value HostPort, explicit bool) {
	i := f.InfraCluster
	if i == nil || !value.Whole() || !explicit && f.LoadBalancer == nil {
		return // what nobody asked us for is left alone
	}
	push := PushFor(i.Group, i.Kind)
	missing := push.Missing(i.Spec)
	switch {
	case push.Policy == Competes:
		p.problemOf(FromInfraCluster, ReasonInfraCompetes, "%s %s always makes a load balancer and an endpoint of its own: use %s as a further endpoint, or another infrastructure", i.Kind, i.Name, value)
	case push.Policy != Tell || i.Endpoint.Same(value):
	case len(missing) > 0:
		p.problemOf(FromInfraCluster, ReasonInfraCompetes, "%s %s makes an endpoint of its own: set %s", i.Kind, i.Name, strings.Join(missing, ", "))
	case i.Endpoint.Whole():
		p.problemOf(FromInfraCluster, ReasonInfraDiffers, "the Cluster has %s, and %s %s has %s: make them the same", value, i.Kind, i.Name, i.Endpoint)
	case p.Cluster.Empty(): // the Cluster first: Cluster API takes over what an InfraCluster says
		p.InfraCluster = value
	}
}
