package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Lack is what a LoadBalancer is served without: a reason and a message.
type Lack struct{ Reason, Message string }

// slices are the EndpointSlices that a Service has to have: one for each TargetGroup and family of the Service that has endpoints.
// A group has at most 100 targets, each with one address a family, and targets don't move between groups: so an endpoint stays in
// its slice. lack says what is amiss; nil: nothing.
func (w *Wanted) slices(s *corev1.Service) (out []*discoveryv1.EndpointSlice, lack *Lack) {
	groups := slices.Clone(w.Groups)
	slices.SortFunc(groups, func(a, b v1alpha1.TargetGroup) int { return strings.Compare(a.Name, b.Name) })
	members := map[discoveryv1.AddressType][]lb.Member{}
	fix := "see to the targets of the TargetGroups that are selected"
	for i := range groups {
		e := build.EndpointsOf(&groups[i], w.Tenant, w.Admission)
		members[discoveryv1.AddressTypeIPv4] = append(members[discoveryv1.AddressTypeIPv4], e.IPv4...)
		members[discoveryv1.AddressTypeIPv6] = append(members[discoveryv1.AddressTypeIPv6], e.IPv6...)
		if len(e.Problems) > 0 && lack == nil {
			lack = &Lack{e.Problems[0].Reason, fmt.Sprintf("TargetGroup %s: %s", groups[i].Name, e.Problems[0].Message)}
			fix = lack.Message // why there may be none
		}
	}
	for _, family := range s.Spec.IPFamilies {
		kind := discoveryv1.AddressType(family)
		made, active := w.ofFamily(s, kind, members[kind])
		out = append(out, made...)
		if !active {
			lack = &Lack{clusterv1.ReasonNoActiveTargets, fmt.Sprintf("no target takes new connections over %s: %s", family, fix)}
		}
	}
	return out, lack
}

// ofFamily makes the slices of one family; active says whether an endpoint of it is ready.
func (w *Wanted) ofFamily(s *corev1.Service, kind discoveryv1.AddressType, members []lb.Member) (out []*discoveryv1.EndpointSlice, active bool) {
	best := map[netip.Addr]int{} // an address in two groups is one endpoint
	for i, m := range members {
		if at, known := best[m.Address]; !known || !usable(members[at]) && usable(m) {
			best[m.Address] = i
		}
		active = active || usable(m)
	}
	open := !active && (w.LoadBalancer.Spec.FailOpen == nil || *w.LoadBalancer.Spec.FailOpen)
	byGroup := map[string]*discoveryv1.EndpointSlice{}
	for i, m := range members {
		if best[m.Address] != i {
			continue
		}
		if open && !m.Draining && m.Weight > 0 {
			m.Ready, active = true, true
		}
		slice := byGroup[m.TargetGroup]
		if slice == nil {
			slice = w.slice(s, m.TargetGroup, kind)
			byGroup[m.TargetGroup] = slice
			out = append(out, slice)
		}
		slice.Endpoints = append(slice.Endpoints, w.endpoint(m))
	}
	for _, slice := range out {
		slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int { return strings.Compare(a.Addresses[0], b.Addresses[0]) })
	}
	return out, active
}

// usable says that a member takes new connections.
func usable(m lb.Member) bool { return m.Ready && !m.Draining && m.Weight > 0 }

// endpoint carries a member's state over, in Kubernetes' words: one that drains is terminating, and serves what it has; one whose
// cluster says that it isn't ready doesn't serve.
func (w *Wanted) endpoint(m lb.Member) discoveryv1.Endpoint {
	ready, serving, terminating := usable(m), m.Ready, m.Draining
	e := discoveryv1.Endpoint{
		Addresses:  []string{m.Address.String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
	}
	if m.Zone != "" && len(validation.IsValidLabelValue(m.Zone)) == 0 {
		e.Zone = &m.Zone
		if w.LoadBalancer.Spec.TrafficDistribution == clusterv1.PreferSameZone {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: m.Zone}}}
		}
	}
	return e
}

// slice is one without endpoints.
func (w *Wanted) slice(s *corev1.Service, group string, kind discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	yes := true
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: sliceName(s.Name, group, kind),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: s.Name, discoveryv1.LabelManagedBy: manager, v1alpha1.LabelFor: w.LoadBalancer.Name,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID, Controller: &yes}},
		},
		AddressType: kind,
	}
	for _, p := range w.ports() {
		name, proto, number := portName(p), protocol(p), targetPort(p)
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &proto, Port: &number})
	}
	return out
}
