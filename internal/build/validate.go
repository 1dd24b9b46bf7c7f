package build

import (
	"fmt"
	"slices"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Ports are the LoadBalancer's, with the default of a control plane's.
func Ports(l *clusterv1.LoadBalancer) []clusterv1.Port {
	if len(l.Spec.Ports) > 0 || l.Spec.Role != clusterv1.RoleControlPlane {
		return l.Spec.Ports
	}
	port := int32(6443)
	if e := l.Spec.Endpoint; e != nil && e.Port != 0 {
		port = e.Port
	}
	return []clusterv1.Port{{Protocol: clusterv1.ProtocolTCP, Port: port, TargetPort: 6443}}
}

// Validate judges all of a LoadBalancer that can be judged without the ledger
// and the TargetGroups. class is the one that it names, nil if that doesn't exist;
// tenant is its namespace's, nil if that has none. The Problems are sorted;
// Refusal says which of them keeps a port from being served. The manager and every
// proxy say the same, because both ask here.
func Validate(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) []lb.Problem {
	if l == nil {
		return nil
	}
	f := &findings{object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: l.Namespace, Name: l.Name}}
	f.class(l, class, tenant)
	f.wholeSpec(l, class)
	f.comforts(l)
	f.endpoint(l, class, tenant)
	f.targets(l, class, tenant)
	switch {
	case ByProvider(l, class):
		f.onProvider(l)
	case class != nil && class.Spec.Service != nil:
		f.onService(l, class, tenant)
	case class != nil && class.Spec.HooksOnly != nil:
		f.onOthers(l, class, tenant)
	default:
		f.onProxies(l)
	}
	f.ports(l)
	return f.sorted()
}

// class finds what the LoadBalancer's class and Tenant don't allow.
func (f *findings) class(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) {
	name := l.Spec.ClassName
	if name == "" && class != nil {
		name = class.Name
	}
	if tenant != nil && tenant.Spec.Suspend {
		f.refuse("metadata.namespace", clusterv1.ReasonSuspended, "Tenant %q is suspended: the hub's operator sets its spec.suspend to false", tenant.Name)
	}
	switch {
	case l.Spec.InfrastructureRef != nil:
		f.infrastructureRef(l, tenant)
		return
	case name == "":
		f.refuse("spec.className", clusterv1.ReasonNoClass, "no class is named and none is marked as default: name one, or have the hub's operator mark one")
		return
	case tenant != nil && len(tenant.Spec.Classes) > 0 && !slices.Contains(tenant.Spec.Classes, name):
		// Whether the class exists is not for this Tenant to know.
		f.refuse("spec.className", clusterv1.ReasonClassNotAllowed, "class %q is not among those that the Tenant may use: use one of %q, or ask the hub's operator", name, tenant.Spec.Classes)
		return
	case class == nil:
		f.refuse("spec.className", clusterv1.ReasonClassNotFound, "class %q doesn't exist: name one that does, or have the hub's operator create it", name)
		return
	}
	for _, p := range ValidateClass(class) {
		if p.Effect == lb.Refused {
			f.refuse("spec.className", p.Reason, "class %q: %s: %s", name, p.Field, p.Message)
		}
	}
	if tenant != nil && class.Spec.InfrastructureTemplate != nil {
		f.refuse("spec.className", clusterv1.ReasonNotSupported, "class %q: provider kinds serve no LoadBalancers of Tenants yet: name a class with proxies or of Services", name)
	}
}

// ValidateClass judges a class. A Refused Problem refuses all its LoadBalancers.
func ValidateClass(class *v1alpha1.LoadBalancerClass) []lb.Problem {
	if class == nil {
		return nil
	}
	f := &findings{object: lb.ObjectRef{Kind: "LoadBalancerClass", Name: class.Name}}
	switch p := class.Spec.Proxy; {
	case class.Spec.Service != nil:
		f.classService(class)
	case class.Spec.InfrastructureTemplate != nil:
		f.classTemplate(class)
	case class.Spec.HooksOnly != nil:
		f.classHooksOnly(class)
	case p == nil:
		f.refuse("spec", clusterv1.ReasonNotSupported, "only classes with spec.proxy, spec.service, spec.infrastructureTemplate or spec.hooksOnly are supported: use one")
	case p.Placement != "" && p.Placement != v1alpha1.PlacementEvery:
		f.refuse("spec.proxy.placement", clusterv1.ReasonNotSupported, "placement %s is not supported yet: use placement Every", p.Placement)
	case p.ClientAddress != "" && p.ClientAddress != v1alpha1.ClientAddressKeep && p.ClientAddress != v1alpha1.ClientAddressHide:
		f.without("spec.proxy.clientAddress", clusterv1.ReasonInvalid, "%q is unknown, clients' addresses are hidden: use Keep or Hide", p.ClientAddress)
	}
	if d := class.Spec.Defaults; d != nil {
		f.bounded("spec.defaults.drainTimeout", d.DrainTimeout, 0, maxDuration)
		f.healthCheck("spec.defaults.healthCheck", d.HealthCheck)
	}
	return f.sorted()
}

// wholeSpec finds what refuses the whole LoadBalancer.
func (f *findings) wholeSpec(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass) {
	s := &l.Spec
	if len(Ports(l)) == 0 && !ByProvider(l, class) { // which knows whether it is a control plane's
		f.refuse("spec.ports", clusterv1.ReasonNoPorts, "there is no port: add one")
	}
	f.sources(l)
	if _, ok := proxyProtocol(l); !ok {
		f.refuse("spec.proxyProtocol", clusterv1.ReasonInvalid, "version %q of the PROXY protocol is unknown, and targets that expect one would break: use V1 or V2", s.ProxyProtocol)
	}
	if _, err := Selector(l); err != nil {
		f.refuse("spec.selector", clusterv1.ReasonInvalid, "the selector doesn't parse (%v): mend it", err)
	}
}

// comforts finds what the LoadBalancer is served without.
func (f *findings) comforts(l *clusterv1.LoadBalancer) {
	s := &l.Spec
	if d := s.TrafficDistribution; d != "" && d != clusterv1.PreferSameZone {
		f.without("spec.trafficDistribution", clusterv1.ReasonInvalid, "distribution %q is unknown, all zones are served alike: use PreferSameZone", d)
	}
	f.bounded("spec.drainTimeout", s.DrainTimeout, 0, maxDuration)
	f.bounded("spec.idleTimeout", s.IdleTimeout, 0, maxDuration)
	f.healthCheck("spec.healthCheck", s.HealthCheck)
}

// endpoint finds an endpoint that nobody publishes.
func (f *findings) endpoint(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) {
	s := &l.Spec
	if s.Role == clusterv1.RoleControlPlane {
		if tenant != nil {
			f.without("spec.role", clusterv1.ReasonNotSupported, "in a Tenant's namespace no endpoint is published: make the LoadBalancer, and its Cluster, in a namespace of no Tenant, or set the Cluster's endpoint by hand")
		}
		return
	}
	if e := s.Endpoint; e != nil && e.Host != "" && !ByProvider(l, class) {
		f.without("spec.endpoint", clusterv1.ReasonNotSupported, "only a control plane's endpoint is published: set spec.role to ControlPlane, or remove it")
	}
	if len(s.AlternateEndpoints) > 0 {
		f.without("spec.alternateEndpoints", clusterv1.ReasonNotSupported, "only a control plane's endpoint is published: set spec.role to ControlPlane, or remove them")
	}
}

// targets finds what is wrong with the kind of the targets, and what goes with another kind.
func (f *findings) targets(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) {
	resolved, why := Resolved(l, class, tenant)
	switch kind := targetKind(l); {
	case resolved != "", kind == kindTargetGroup:
	case why != "":
		f.without("spec.targetKind", clusterv1.ReasonNotSupported, "%s", why)
	default:
		f.without("spec.targetKind", clusterv1.ReasonInvalid, "kind %q is unknown: use TargetGroup, Machine or Node", kind)
	}
	if resolved == member.Nodes && l.Spec.ClusterName != "" {
		f.without("spec.clusterName", clusterv1.ReasonInvalid, "Nodes are this cluster's own, of no Cluster, and none is added while it says so: remove it, or use targets of kind Machine")
	}
	if l.Spec.MachineHooks != nil && resolved != member.Machines {
		f.without("spec.machineHooks", clusterv1.ReasonNotSupported, "only Machines are hooked: remove it")
	}
	if len(l.Spec.AddressTypes) > 0 && resolved == "" {
		f.without("spec.addressTypes", clusterv1.ReasonNotSupported, "only Machines' and Nodes' addresses are chosen from: remove them")
	}
}

// onProxies finds what our proxies serve without.
func (f *findings) onProxies(l *clusterv1.LoadBalancer) {
	s := &l.Spec
	if d := s.SessionAffinityTimeout; s.SessionAffinity == clusterv1.SessionAffinityClientIP && d != nil && d.Duration != defaultAffinityTimeout {
		f.without("spec.sessionAffinityTimeout", clusterv1.ReasonNotSupported, "affinity does not end by time, a client keeps its target until targets change: remove it")
	}
}

// ports finds what refuses single ports.
func (f *findings) ports(l *clusterv1.LoadBalancer) {
	type key struct {
		lb.Protocol
		int32
	}
	seen := map[key]bool{}
	for i, p := range Ports(l) {
		x, field := f.port(p), fmt.Sprintf("spec.ports[%d]", i)
		k := key{protocol(p), p.Port}
		switch {
		case portNumber(p.Port) == 0:
			x.refuse(field+".port", clusterv1.ReasonInvalid, "port %d is none: use 1 to 65535", p.Port)
		case p.TargetPort != 0 && portNumber(p.TargetPort) == 0:
			x.refuse(field+".targetPort", clusterv1.ReasonInvalid, "target port %d is none: use 1 to 65535", p.TargetPort)
		case seen[k]:
			x.refuse(field, clusterv1.ReasonInvalid, "the port is there twice: remove one")
		case k.Protocol != lb.TCP && k.Protocol != lb.UDP && k.Protocol != lb.SCTP:
			x.refuse(field+".protocol", clusterv1.ReasonInvalid, "protocol %q is unknown: use TCP, UDP or SCTP", k.Protocol)
		case p.Mode == clusterv1.ModeTCP && k.Protocol != lb.TCP, p.Mode == clusterv1.ModeUDP && k.Protocol != lb.UDP:
			x.refuse(field+".mode", clusterv1.ReasonInvalid, "mode %s doesn't go with protocol %s: leave it out", p.Mode, k.Protocol)
		case p.Mode != "" && p.Mode != clusterv1.ModeTCP && p.Mode != clusterv1.ModeUDP:
			x.refuse(field+".mode", clusterv1.ReasonNotSupported, "mode %s is not supported yet: use TCP", p.Mode)
		case p.TLS != nil:
			x.refuse(field+".tls", clusterv1.ReasonNotSupported, "TLS is not ended here yet: remove it, and end TLS at the targets")
		}
		seen[k] = true
		f.problems = append(f.problems, x.problems...)
	}
}

// defaultAffinityTimeout is what the API server sets on a Service that asks for affinity.
const defaultAffinityTimeout = 3 * time.Hour

// maxDuration bounds what the API bounds with 720h.
const maxDuration = 720 * time.Hour

// bounded finds a duration out of its bounds; what is unset is within.
func (f *findings) bounded(field string, d *metav1.Duration, least, most time.Duration) {
	if d != nil && !within(d, least, most) {
		f.without(field, clusterv1.ReasonInvalid, "%s is out of bounds, the default is used: use %s to %s", d.Duration, least, most)
	}
}

func within(d *metav1.Duration, least, most time.Duration) bool {
	return d.Duration >= least && d.Duration <= most
}

// firstDuration is the first that is set and within 0 to maxDuration.
func firstDuration(fallback time.Duration, ds ...*metav1.Duration) time.Duration {
	for _, d := range ds {
		if d != nil && within(d, 0, maxDuration) {
			return d.Duration
		}
	}
	return fallback
}
