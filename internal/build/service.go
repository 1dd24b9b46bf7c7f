package build

import (
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// typeClusterIP is of a Service that only the hub reaches.
const typeClusterIP = "ClusterIP"

// classService judges what a class says of its Services.
func (f *findings) classService(class *v1alpha1.LoadBalancerClass) {
	s := class.Spec.Service
	if s.Type == typeClusterIP && s.LoadBalancerClass != "" {
		f.refuse("spec.service.loadBalancerClass", clusterv1.ReasonInvalid, "a Service of type ClusterIP has no load balancer: remove loadBalancerClass, or use type LoadBalancer")
	}
	if errs := metavalidation.ValidateLabels(s.Labels, field.NewPath("spec", "service", "labels")); len(errs) > 0 {
		f.refuse(errs[0].Field, clusterv1.ReasonInvalid, "no Service can have such labels: %s", errs[0].ErrorBody())
	}
	if errs := apivalidation.ValidateAnnotations(s.Annotations, field.NewPath("spec", "service", "annotations")); len(errs) > 0 {
		f.refuse(errs[0].Field, clusterv1.ReasonInvalid, "no Service can have such annotations: %s", errs[0].ErrorBody())
	}
	if len(class.Spec.AddressPools) > 0 {
		f.without("spec.addressPools", clusterv1.ReasonNotSupported, "the hub's implementation of Services chooses the addresses: say there which, or in spec.service.annotations, and remove addressPools")
	}
	if defaultsOf(class).HealthCheck != nil {
		f.without("spec.defaults.healthCheck", clusterv1.ReasonNotSupported, "nothing here checks targets: remove it")
	}
}

// onService finds what a Service of the hub can't do.
func (f *findings) onService(l *clusterv1.LoadBalancer, of *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) {
	s, class := &l.Spec, of.Spec.Service
	if s.ProxyProtocol != "" {
		f.refuse("spec.proxyProtocol", clusterv1.ReasonNotSupported, "a Service of the hub doesn't send the PROXY protocol, and targets that expect it would break: use a class with proxies that do")
	}
	if len(s.SourceRanges) > 0 && class.Type == typeClusterIP {
		f.refuse("spec.sourceRanges", clusterv1.ReasonNotSupported, "a Service of type ClusterIP can't keep clients out: remove them, or use another class")
	}
	switch c := s.HealthCheck; {
	case c == nil || c.Type == clusterv1.HealthCheckNone:
	case s.FailOpen != nil && !*s.FailOpen:
		f.refuse("spec.healthCheck", clusterv1.ReasonNotSupported, "targets are not checked, and with failOpen false those that fail must get nothing, as with a Service's externalTrafficPolicy Local: use policy Cluster, or a class with proxies")
	default:
		f.without("spec.healthCheck", clusterv1.ReasonNotSupported, "targets are not checked, their ready says whether they are used: remove it")
	}
	if s.IdleTimeout != nil && s.IdleTimeout.Duration != 0 {
		f.without("spec.idleTimeout", clusterv1.ReasonNotSupported, "idle connections stay open as long as the hub's implementation of Services lets them: remove it")
	}
	// Machines are held, and Nodes listed, for so long.
	if kind, _ := Resolved(l, of, tenant); s.DrainTimeout != nil && s.DrainTimeout.Duration != 0 && kind == "" {
		f.without("spec.drainTimeout", clusterv1.ReasonNotSupported, "open connections of a draining target are not cut: remove it")
	}
	if len(s.AddressPools) > 0 {
		f.without("spec.addressPools", clusterv1.ReasonNotSupported, "the hub's implementation of Services chooses the address: remove them")
	}
}

// Endpoints are what a TargetGroup gives a Service of the hub.
type Endpoints struct {
	// IPv4 and IPv6 members, sorted by key.
	IPv4, IPv6 []lb.Member
	// Problems say which targets are left out, and why.
	Problems []lb.Problem
}

// EndpointsOf reads a TargetGroup in a namespace of a Tenant, or of none if that is nil; a is Admit's word on it. It leaves out what an EndpointSlice can't
// hold, beside what no Tenant may send to: names, loopback and link-local addresses. There one would spoil all of its slice.
func EndpointsOf(g *v1alpha1.TargetGroup, tenant *v1alpha1.Tenant, a Admission) Endpoints {
	read := readTargetGroup(g, reachOf(tenant), a, nil)
	f := &findings{object: lb.ObjectRef{Kind: lb.KindTargetGroup, Namespace: g.Namespace, Name: g.Name}, problems: slices.Clone(read.problems)}
	for _, name := range read.names {
		f.without("spec.targets", clusterv1.ReasonNotSupported, "targets known by the name %s alone are left out, for a Service of the hub sends to addresses only: write the address beside the name, or use a class with proxies", name)
	}
	var out Endpoints
	for family, to := range map[family]*[]lb.Member{ipv4: &out.IPv4, ipv6: &out.IPv6} {
		for _, m := range read.members[family] {
			if own(m.Address) {
				f.without("spec.targets", clusterv1.ReasonTargetNotAllowed, "%s of target %q is left out, for in an EndpointSlice it would be each node's own: write the address by which the hub's nodes reach it", m.Address, m.Name)
				continue
			}
			*to = append(*to, m)
		}
	}
	out.Problems = f.sorted()
	return out
}

// own addresses are each host's own. No EndpointSlice holds one.
func own(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() }
