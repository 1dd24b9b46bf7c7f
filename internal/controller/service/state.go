package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// State is what became of a LoadBalancer's Service.
type State struct {
	// From is what the addresses are of, for a message; "": the hub's Service.
	From string
	// Addresses that the hub's implementation gave; at most as many as a status takes.
	Addresses []clusterv1.LoadBalancerAddress
	// Reason and Message say what is waited for or refused; empty: the Service has an address, and all its endpoints are written.
	Reason, Message string
	// Ports that the implementation can't serve.
	Ports []clusterv1.PortStatus
	// Lack is what it is served without; nil: nothing.
	Lack *Lack
	// Again is when to look again though nothing is heard; 0: something will be.
	Again time.Duration
}

// maxAddresses is what a LoadBalancer's status takes.
const maxAddresses = 8

// Port is what the implementation says of a port; false: nothing.
func (s *State) Port(number int32, protocol clusterv1.Protocol) (clusterv1.PortStatus, bool) {
	i := slices.IndexFunc(s.Ports, func(p clusterv1.PortStatus) bool { return p.Port == number && p.Protocol == protocol })
	if i < 0 {
		return clusterv1.PortStatus{}, false
	}
	return s.Ports[i], true
}

// Given names the addresses and where they come from.
func (s *State) Given() string {
	var out []string
	for _, a := range s.Addresses {
		out = append(out, a.Value)
	}
	return strings.Join(out, ", ") + cmp.Or(s.From, " of the hub's Service")
}

// read is what a Service's status says.
func read(s *corev1.Service) State {
	var out State
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		for _, a := range s.Spec.ClusterIPs {
			out.add(a, "")
		}
		return out
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		out.add(i.IP, i.Hostname)
		for _, p := range i.Ports {
			number, protocol := p.Port, clusterv1.Protocol(p.Protocol)
			if _, known := out.Port(number, protocol); p.Error != nil && *p.Error != "" && !known {
				out.Ports = append(out.Ports, clusterv1.PortStatus{
					Port: number, Protocol: protocol, Error: *p.Error,
					Message: fmt.Sprintf("the hub's implementation of Services says %s: see the events of Service %s/%s in the hub", *p.Error, s.Namespace, s.Name),
				})
			}
		}
	}
	return out
}

// add notes an address, or else a name. An ingress's ipMode is not kept: it speaks of the hub's nodes, and in the cluster of a Service the
// traffic always comes from outside.
func (s *State) add(ip, name string) {
	if len(s.Addresses) == maxAddresses {
		return
	}
	if a, err := netip.ParseAddr(ip); err == nil {
		family := clusterv1.IPv6
		if a.Unmap().Is4() {
			family = clusterv1.IPv4
		}
		s.Addresses = append(s.Addresses, clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a.Unmap().String(), Family: family})
	} else if name != "" {
		s.Addresses = append(s.Addresses, clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeHostname, Value: name})
	}
}
