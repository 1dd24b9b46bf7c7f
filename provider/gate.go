package provider

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
)

// said is who says which endpoint; one that is empty says nothing.
type said struct {
	cluster, loadBalancer, own clusterv1.Endpoint
	// controlPlane: the LoadBalancer is its Cluster's control plane's, so the Cluster's word counts.
	controlPlane bool
	// exists: something is there outside already.
	exists bool
}

// problem is a reason and a message for a condition.
type problem struct{ reason, message string }

// passage is what the gate says.
type passage struct {
	// wait: nothing may be done outside.
	wait *problem
	// push is written to the object's spec.endpoint first.
	push *clusterv1.Endpoint
	// endpoint is the one to be made; empty: the provider chooses.
	endpoint clusterv1.Endpoint
	// differs: what is outside goes on as it is, though another endpoint is asked for.
	differs *problem
}

// gate lets nothing be made outside before the endpoint is settled that somebody set: the Cluster's must have come down to
// the LoadBalancer, and the LoadBalancer's to the object. The generic object's word goes before the provider object's,
// until something is outside, for no later word changes what certificates and kubeconfigs have.
func gate(s said) passage {
	cluster := clusterv1.Endpoint{}
	if s.controlPlane {
		cluster = s.cluster
	}
	switch {
	case !isSet(cluster) || sameEndpoint(cluster, s.loadBalancer):
	case s.exists: // the Cluster and its LoadBalancer are for others to bring together
	case !isSet(s.loadBalancer):
		return passage{wait: &problem{contract.ReasonEndpointNotPushed, fmt.Sprintf("The Cluster has the endpoint %s, which its LoadBalancer doesn't say yet in spec.endpoint: nothing is made before.", text(cluster))}}
	default:
		return passage{wait: &problem{contract.ReasonEndpointConflict, fmt.Sprintf("The Cluster has the endpoint %s, and its LoadBalancer says %s in spec.endpoint: make them the same.", text(cluster), text(s.loadBalancer))}}
	}
	switch {
	case !isSet(s.loadBalancer) || sameEndpoint(s.loadBalancer, s.own):
		return passage{endpoint: s.own}
	case s.exists && isSet(s.own):
		return passage{endpoint: s.own, differs: &problem{contract.ReasonEndpointDiffers, fmt.Sprintf("The LoadBalancer says %s in spec.endpoint, and %s was made and is kept: say that there, or delete this object to have another one made.", text(s.loadBalancer), text(s.own))}}
	}
	push := s.loadBalancer
	return passage{push: &push, endpoint: push}
}

// isSet says whether an endpoint says anything; as printed in the proposal, both fields may be null.
func isSet(e clusterv1.Endpoint) bool { return e.Host != "" && e.Port != 0 }

func sameEndpoint(a, b clusterv1.Endpoint) bool {
	return strings.EqualFold(a.Host, b.Host) && a.Port == b.Port
}

func text(e clusterv1.Endpoint) string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// value is what a pointer has, empty where it has nothing.
func value(e *clusterv1.Endpoint) clusterv1.Endpoint {
	if e == nil {
		return clusterv1.Endpoint{}
	}
	return *e
}
