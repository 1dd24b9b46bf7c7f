package service

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/utils/net"
)

// Shown is where a Service says that it is served, as Ingress has it.
func Shown(s *v1.Service, at Place) []v1.LoadBalancerIngress {
	if at == InStatus {
		return s.Status.LoadBalancer.Ingress
	}
	var out []v1.LoadBalancerIngress
	for _, text := range list(s.Annotations[v1alpha1.AnnotationPublished]) {
		if _, err := netip.ParseAddr(text); err != nil {
			out = append(out, v1.LoadBalancerIngress{Hostname: text})
		} else {
			out = append(out, v1.LoadBalancerIngress{IP: text})
		}
	}
	return out
}

// Published is what Ingress is in the annotation.
func Published(ingress []v1.LoadBalancerIngress) string {
	var out []string
	for _, i := range ingress {
		out = append(out, cmp.Or(i.IP, i.Hostname))
	}
	return strings.Join(out, ",")
}

// Ingress is where a Service's user finds it, for status.loadBalancer.ingress or the annotation. Addresses appear once the
// LoadBalancer is Programmed in its present generation, and stay until others replace them. What is shown keeps its place, as
// clients may take the first; others come behind, in the order of the Service's ipFamilies. In the status each port is listed,
// with its error.
func Ingress(s *v1.Service, at Place, problems []Problem, l *clusterv1.LoadBalancer) []v1.LoadBalancerIngress {
	shown := Shown(s, at)
	var out []v1.LoadBalancerIngress
	if l != nil && l.DeletionTimestamp == nil {
		if c := current(l, clusterv1.ConditionProgrammed); c != nil && c.Status == metav1.ConditionTrue {
			for _, a := range l.Status.Addresses {
				out = append(out, entry(a, at))
			}
			slices.SortStableFunc(out, func(a, b v1.LoadBalancerIngress) int { return cmp.Compare(place(s, shown, a), place(s, shown, b)) })
		}
	}
	if len(out) == 0 {
		out = slices.Clone(shown)
	}
	if at == InAnnotation {
		return out
	}
	var ports []v1.PortStatus
	for _, p := range s.Spec.Ports {
		status := v1.PortStatus{Port: p.Port, Protocol: p.Protocol}
		if x := portProblem(p, problems, l); x != nil {
			status.Error = &x.Reason
		}
		ports = append(ports, status)
	}
	for i := range out {
		out[i].Ports = ports
	}
	return out
}

// place orders what a Service shows.
func place(s *v1.Service, shown []v1.LoadBalancerIngress, i v1.LoadBalancerIngress) int {
	if at := slices.IndexFunc(shown, func(x v1.LoadBalancerIngress) bool { return x.IP == i.IP && x.Hostname == i.Hostname }); at >= 0 {
		return at
	}
	family := v1.IPv4Protocol
	if utilnet.IsIPv6String(i.IP) {
		family = v1.IPv6Protocol
	}
	return len(shown) + max(0, slices.Index(s.Spec.IPFamilies, family))
}

func entry(a clusterv1.LoadBalancerAddress, at Place) v1.LoadBalancerIngress {
	if a.Type == clusterv1.AddressTypeHostname {
		return v1.LoadBalancerIngress{Hostname: a.Value}
	}
	if at == InAnnotation {
		return v1.LoadBalancerIngress{IP: a.Value}
	}
	mode := v1.LoadBalancerIPModeProxy
	return v1.LoadBalancerIngress{IP: a.Value, IPMode: &mode}
}
