package service

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// manager is what EndpointSlices name as theirs, so that Kubernetes' own controller leaves them alone.
const manager = "fairlead"

// annotationKeys on a Service lists the labels and annotations that came from its class, so that they go with it.
const annotationKeys = "fairlead.dev/class-keys"

// NameOf is the name of a LoadBalancer's Service: its own, or one made from that where no Service can have it.
func NameOf(loadBalancer string) string {
	if len(validation.IsDNS1035Label(loadBalancer)) == 0 {
		return loadBalancer
	}
	return "lb-" + hash(loadBalancer)
}

// sliceName is unique among all Services of a namespace.
func sliceName(service, group string, family discoveryv1.AddressType) string {
	return service + "-" + strings.ToLower(string(family)) + "-" + hash(group)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:5])
}

// portName is that of a port in Service and slices: where the LoadBalancer's port has none that both take, it is made from protocol and port.
func portName(p clusterv1.Port) string {
	if len(validation.IsDNS1123Label(p.Name)) == 0 {
		return p.Name
	}
	return fmt.Sprintf("port-%s-%d", strings.ToLower(string(protocol(p))), p.Port)
}

func protocol(p clusterv1.Port) corev1.Protocol {
	return corev1.Protocol(cmp.Or(p.Protocol, clusterv1.ProtocolTCP))
}

// ownedBy is the LoadBalancer's part in a Service's metadata.
func ownedBy(l *clusterv1.LoadBalancer) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "LoadBalancer", Name: l.Name, UID: l.UID, Controller: &yes,
	}
}

// madeFor says whether a Service was made for a LoadBalancer of that name, be it an earlier one.
func madeFor(s *corev1.Service, loadBalancer string) bool {
	o := metav1.GetControllerOf(s)
	return o != nil && o.APIVersion == clusterv1.GroupVersion.String() && o.Kind == "LoadBalancer" && o.Name == loadBalancer
}

// LoadBalancerOf names the LoadBalancer that a Service or an EndpointSlice was made for, as its label has it.
func LoadBalancerOf(o metav1.Object) string { return o.GetLabels()[v1alpha1.LabelFor] }
