package endpoint

import (
	"fmt"
	"strings"
)

// Policy says what an InfraCluster of a kind is told.
type Policy string

const (
	// Leave it alone: it needs no endpoint, or reads the Cluster's itself.
	Leave Policy = "Leave"
	// Tell it the Cluster's endpoint: without one it isn't provisioned.
	Tell Policy = "Tell"
	// Never: it would take that for its own, and change what others have.
	Never Policy = "Never"
	// Competes: it always makes an endpoint of its own.
	Competes Policy = "Competes"
)

// Setting is a field of an InfraCluster's spec that keeps it from making an endpoint of its own.
type Setting struct {
	// Field, as spec.a.b.
	Field string
	// Must is its value, and Default that where it isn't set.
	Must, Default string
}

// Push is what is known of a kind of InfraCluster.
type Push struct {
	Group, Kind string
	Policy      Policy
	// Needs are the settings without which nothing is told.
	Needs []Setting
}

// infrastructure is the group of most providers.
const infrastructure = "infrastructure.cluster.x-k8s.io"

// Pushes are the kinds of which something is known: read in their providers' code, of August 2026, and held to their CRDs where
// those can be had (hack/infraclusters). Others are left alone.
func Pushes() []Push {
	return []Push{
		{Group: infrastructure, Kind: "AWSCluster", Policy: Tell, Needs: []Setting{{"spec.controlPlaneLoadBalancer.loadBalancerType", "disabled", "classic"}}},
		{Group: infrastructure, Kind: "AzureCluster", Policy: Tell, Needs: []Setting{{"spec.controlPlaneEnabled", "false", "true"}}},
		{Group: infrastructure, Kind: "HetznerCluster", Policy: Tell, Needs: []Setting{{"spec.controlPlaneLoadBalancer.enabled", "false", "true"}}},
		{Group: infrastructure, Kind: "Metal3Cluster", Policy: Tell},
		// Its switches have other names in each of its versions. With an endpoint of its own there is a conflict, which is told.
		{Group: infrastructure, Kind: "OpenStackCluster", Policy: Tell},
		{Group: infrastructure, Kind: "ProxmoxCluster", Policy: Tell, Needs: []Setting{{"spec.externalManagedControlPlane", "true", "false"}}},
		// Provisioned without an endpoint.
		{Group: infrastructure, Kind: "NutanixCluster", Policy: Leave},
		{Group: infrastructure, Kind: "VSphereCluster", Policy: Leave},
		// They read the Cluster's.
		{Group: "vmware.infrastructure.cluster.x-k8s.io", Kind: "VSphereCluster", Policy: Leave},
		{Group: infrastructure, Kind: "TinkerbellCluster", Policy: Leave},
		{Group: infrastructure, Kind: "MicrovmCluster", Policy: Leave},
		// It would rewrite the kubeconfig Secret.
		{Group: infrastructure, Kind: "DevCluster", Policy: Never},
		{Group: infrastructure, Kind: "DockerCluster", Policy: Never},
		{Group: infrastructure, Kind: "GCPCluster", Policy: Competes},
	}
}

// PushFor is what is known of a kind; what isn't known is left alone.
func PushFor(group, kind string) Push {
	for _, p := range Pushes() {
		if p.Group == group && p.Kind == kind {
			return p
		}
	}
	return Push{Group: group, Kind: kind, Policy: Leave}
}

// Missing are the settings that a spec lacks, each as field=value.
func (p Push) Missing(spec map[string]any) []string {
	var out []string
	for _, s := range p.Needs {
		value, at := s.Default, any(spec)
		for _, name := range strings.Split(strings.TrimPrefix(s.Field, "spec."), ".") {
			fields, ok := at.(map[string]any)
			if !ok {
				at = nil
				break
			}
			at = fields[name]
		}
		if at != nil {
			value = fmt.Sprint(at)
		}
		if value != s.Must {
			out = append(out, s.Field+"="+s.Must)
		}
	}
	return out
}
