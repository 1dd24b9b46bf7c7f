package build

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// classHooksOnly judges a class whose load balancers somebody else manages.
func (f *findings) classHooksOnly(class *v1alpha1.LoadBalancerClass) {
	if len(class.Spec.AddressPools) > 0 {
		f.without("spec.addressPools", clusterv1.ReasonNotSupported, "whoever manages the load balancer gives the address: remove them")
	}
	if class.Spec.Defaults != nil {
		f.without("spec.defaults", clusterv1.ReasonNotSupported, "whoever manages the load balancer checks targets and cuts connections: remove the defaults")
	}
}

// onOthers finds what a LoadBalancer can't ask of a load balancer that somebody else manages: it is told of its Machines, and of nothing else.
func (f *findings) onOthers(l *clusterv1.LoadBalancer, class *v1alpha1.LoadBalancerClass, tenant *v1alpha1.Tenant) {
	s, ref := &l.Spec, class.Spec.HooksOnly.InfrastructureRef
	if kind, why := Resolved(l, class, tenant); kind == "" {
		if why == "" {
			why = "only Machines are held: set spec.clusterName, or use another class"
		}
		f.refuse("spec.targetKind", clusterv1.ReasonNotSupported, "%s", why)
	}
	const unsafe = "whoever manages %s %s isn't told of it, and to leave it out would be unsafe: ask him, and remove it here"
	if len(s.SourceRanges) > 0 {
		f.refuse("spec.sourceRanges", clusterv1.ReasonNotSupported, unsafe, ref.Kind, ref.Name)
	}
	if s.ProxyProtocol != "" {
		f.refuse("spec.proxyProtocol", clusterv1.ReasonNotSupported, unsafe, ref.Kind, ref.Name)
	}
	for field, set := range map[string]bool{
		"spec.addresses": len(s.Addresses) > 0, "spec.addressPools": len(s.AddressPools) > 0, "spec.healthCheck": s.HealthCheck != nil, "spec.drainTimeout": s.DrainTimeout != nil,
		"spec.idleTimeout": s.IdleTimeout != nil, "spec.trafficDistribution": s.TrafficDistribution != "", "spec.sessionAffinity": s.SessionAffinity == clusterv1.SessionAffinityClientIP,
	} {
		if set {
			f.without(field, clusterv1.ReasonNotSupported, "whoever manages %s %s isn't told of it: ask him, and remove it here", ref.Kind, ref.Name)
		}
	}
}
