package service

import (
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// othersAddresses are the annotations in which Services name addresses to other load balancers: MetalLB, kube-vip, Cilium. A
// Service that comes from there keeps what it asks for. What we serve already moves by none of them: nobody need have had us
// in mind who wrote it.
var othersAddresses = []string{
	"metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs", "kube-vip.io/loadbalancerIPs",
	"lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
}

// addresses: what the Service names, to us or to others. If it names none, a LoadBalancer that is new to the hub gets the
// address that the Service still shows, as a wish: clients may know it. The wish
// stays in the spec while it holds, and goes when the hub can't grant it.
func (w *Wanted) addresses(s *v1.Service, at Place, existing *clusterv1.LoadBalancer) {
	named, field := named(s, at, moves(s, at, existing))
	for _, text := range named {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.IsUnspecified() {
			w.Problems = append(w.Problems, Problem{Field: field, Reason: clusterv1.ReasonInvalid,
				Message: fmt.Sprintf("%q is no address that a host can have, and not wanted therefore: write one such as 192.0.2.7", text)})
			continue
		}
		w.Spec.Addresses = append(w.Spec.Addresses, a.Unmap().String())
	}
	if len(named) > 0 {
		return
	}
	for _, i := range Shown(s, at) {
		a, err := netip.ParseAddr(i.IP)
		if err != nil || !w.asks(a) {
			continue
		}
		if existing == nil || slices.Contains(existing.Spec.Addresses, a.String()) && !WishRefused(existing) {
			w.Spec.Addresses = append(w.Spec.Addresses, a.String())
		}
	}
}

// named are the addresses that a Service names, and in which field: the first that names any. Of others' annotations those
// count that don't move it, and none where another load balancer serves it: they are that one's.
func named(s *v1.Service, at Place, moves func(address string) bool) (addresses []string, field string) {
	if addresses = list(s.Annotations[v1alpha1.AnnotationAddresses]); len(addresses) > 0 {
		return addresses, "metadata.annotations[" + v1alpha1.AnnotationAddresses + "]"
	}
	if at == InAnnotation && s.Spec.Type == v1.ServiceTypeLoadBalancer {
		return nil, ""
	}
	for _, key := range othersAddresses {
		if addresses = slices.DeleteFunc(list(s.Annotations[key]), moves); len(addresses) > 0 {
			return addresses, "metadata.annotations[" + key + "]"
		}
	}
	return list(s.Spec.LoadBalancerIP), "spec.loadBalancerIP"
}

// moves returns what tells whether an address that somebody else was asked for would move a Service that we serve: one that its
// LoadBalancer doesn't want, or, where the hub lost that, one that it doesn't show.
func moves(s *v1.Service, at Place, existing *clusterv1.LoadBalancer) func(address string) bool {
	var served []string
	switch {
	case existing != nil:
		served = existing.Spec.Addresses
	case Holds(s, at) && len(Shown(s, at)) > 0:
		for _, i := range Shown(s, at) {
			served = append(served, i.IP)
		}
	default:
		return func(string) bool { return false }
	}
	return func(address string) bool {
		a, err := netip.ParseAddr(address)
		return err == nil && !a.IsUnspecified() && !slices.Contains(served, a.Unmap().String())
	}
}

// asks tells whether an address is of a family that is asked for.
func (w *Wanted) asks(a netip.Addr) bool {
	family := clusterv1.IPv6
	if a.Unmap().Is4() {
		family = clusterv1.IPv4
	}
	return len(w.Spec.IPFamilies) == 0 || slices.Contains(w.Spec.IPFamilies, family)
}

// WishDropped tells whether want leaves out an address that existing wants and can't have.
func WishDropped(want Wanted, existing *clusterv1.LoadBalancer) bool {
	return existing != nil && len(want.Spec.Addresses) == 0 && len(existing.Spec.Addresses) > 0 && WishRefused(existing)
}

// WishRefused tells whether the hub can't grant a wish: no address at all, or none of one family.
func WishRefused(l *clusterv1.LoadBalancer) bool {
	refused := func(kind string, status metav1.ConditionStatus) bool {
		c := meta.FindStatusCondition(l.Status.Conditions, kind)
		if c == nil || c.Status != status || c.ObservedGeneration != l.Generation {
			return false
		}
		switch c.Reason {
		case clusterv1.ReasonAddressInUse, clusterv1.ReasonAddressNotInPool, clusterv1.ReasonAddressNotRequestable, clusterv1.ReasonPoolNotAllowed:
			return true
		}
		return false
	}
	return refused(clusterv1.ConditionAddressGranted, metav1.ConditionFalse) || refused(clusterv1.ConditionDegraded, metav1.ConditionTrue)
}
