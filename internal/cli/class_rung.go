package cli

import (
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// byOthers says that somebody else manages l's load balancer, so that nothing of ours serves it.
func byOthers(o *Objects, l *clusterv1.LoadBalancer) bool {
	_, class := o.classOf(l)
	return class != nil && class.Spec.HooksOnly != nil && l.Spec.InfrastructureRef == nil
}

// classRung says what implements l.
func classRung(o *Objects, l *clusterv1.LoadBalancer) Rung {
	r := Rung{Name: "class", State: OK}
	name, class := o.classOf(l)
	switch {
	case l.Spec.InfrastructureRef != nil:
		r.State, r.Message = Skipped, fmt.Sprintf("none: %s %s implements it", l.Spec.InfrastructureRef.Kind, l.Spec.InfrastructureRef.Name)
	case class == nil && o.hidden("loadbalancerclasses"):
		r.State, r.Message = Skipped, name+" (LoadBalancerClasses are not visible to you)"
	case name == "":
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonNoClass, "no class is named and none is marked as default"
	case class == nil:
		r.State, r.Reason, r.Message = Broken, clusterv1.ReasonClassNotFound, fmt.Sprintf("class %q doesn't exist", name)
	case class.Spec.Service != nil:
		r.Message = fmt.Sprintf("%s: a Service of the hub, of type %s, by the hub's own implementation", name, class.Spec.Service.Type)
	case class.Spec.InfrastructureTemplate != nil:
		r.Message = fmt.Sprintf("%s: an object made from %s %s, by its provider", name, class.Spec.InfrastructureTemplate.Kind, class.Spec.InfrastructureTemplate.Name)
	case class.Spec.HooksOnly != nil:
		r.Message = fmt.Sprintf("%s: %s %s, which somebody else manages", name, class.Spec.HooksOnly.InfrastructureRef.Kind, class.Spec.HooksOnly.InfrastructureRef.Name)
	case class.Spec.Proxy == nil:
		r.Message = name
	default:
		r.Message = fmt.Sprintf("%s: proxies of pool %s, addresses of %s", name, class.Spec.Proxy.Pool, strings.Join(class.Spec.AddressPools, ", "))
	}
	return r
}
