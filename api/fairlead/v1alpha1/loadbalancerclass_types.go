package v1alpha1

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placement says which proxies of a pool serve an address.
//
// +kubebuilder:validation:Enum=Every;One
type Placement string

const (
	PlacementEvery Placement = "Every"
	PlacementOne   Placement = "One"
)

// ClientAddress says what targets see as the address of a client.
//
// +kubebuilder:validation:Enum=Keep;Hide
type ClientAddress string

const (
	// ClientAddressKeep: the client's own. Targets must route back through the proxy's host.
	ClientAddressKeep ClientAddress = "Keep"
	// ClientAddressHide: the proxy's.
	ClientAddressHide ClientAddress = "Hide"
)

// ClassProxy serves LoadBalancers with our proxies.
type ClassProxy struct {
	// Proxies whose spec.pool is this one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool"`
	// Default: Every.
	// +optional
	Placement Placement `json:"placement,omitempty"`
	// Put each address on the proxy's host while it is served there, and take it away afterwards. Default: false,
	// addresses are there already.
	// +optional
	AssignAddresses bool `json:"assignAddresses,omitempty"`
	// What targets see as a client's address. Keep needs a data plane that can, and targets that route back through
	// the proxy's host. Default: Hide.
	// +optional
	ClientAddress ClientAddress `json:"clientAddress,omitempty"`
}

// ClassService serves LoadBalancers with a Service of the hub.
type ClassService struct {
	// +kubebuilder:validation:Enum=LoadBalancer;ClusterIP
	Type string `json:"type"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
}

// ClassHooksOnly drains members of a load balancer that somebody else manages.
type ClassHooksOnly struct {
	// InfrastructureRef names the load balancer that its manager answers for; it never changes, as an answer for one is none for another.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="infrastructureRef is immutable: create another LoadBalancerClass, and LoadBalancers of that"
	InfrastructureRef clusterv1.ObjectReference `json:"infrastructureRef"`
}

// ClassDefaults are inputs for LoadBalancers that leave a field out. They are never copied into a spec.
type ClassDefaults struct {
	// Default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="drainTimeout must be a duration between 0s and 720h, such as 5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// +optional
	HealthCheck *clusterv1.HealthCheck `json:"healthCheck,omitempty"`
}

// LoadBalancerClassSpec names a technology; exactly one of its kinds is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.proxy), has(self.service), has(self.infrastructureTemplate), has(self.hooksOnly)].filter(x, x).size() == 1",message="set exactly one of proxy, service, infrastructureTemplate and hooksOnly"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.hooksOnly) || has(self.hooksOnly)",message="hooksOnly can't be taken away, for what was answered would stand for another load balancer: create another LoadBalancerClass, and LoadBalancers of that"
type LoadBalancerClassSpec struct {
	// +optional
	Proxy *ClassProxy `json:"proxy,omitempty"`
	// +optional
	Service *ClassService `json:"service,omitempty"`
	// +optional
	InfrastructureTemplate *clusterv1.ObjectReference `json:"infrastructureTemplate,omitempty"`
	// +optional
	HooksOnly *ClassHooksOnly `json:"hooksOnly,omitempty"`
	// AddressPools that LoadBalancers of this class get addresses from, in order of preference.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	AddressPools []string `json:"addressPools,omitempty"`
	// +optional
	Defaults *ClassDefaults `json:"defaults,omitempty"`
}

// LoadBalancerClassStatus says whether the class can be used.
type LoadBalancerClassStatus struct {
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LoadBalancerClass is a technology and its defaults.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=loadbalancerclasses,scope=Cluster,shortName=lbc,categories=fairlead
// +kubebuilder:printcolumn:name="Proxies",type=string,JSONPath=`.spec.proxy.pool`
// +kubebuilder:printcolumn:name="Pools",type=string,JSONPath=`.spec.addressPools`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LoadBalancerClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec LoadBalancerClassSpec `json:"spec"`
	// +optional
	Status LoadBalancerClassStatus `json:"status,omitempty"`
}

// LoadBalancerClassList is a list of LoadBalancerClasses.
//
// +kubebuilder:object:root=true
type LoadBalancerClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoadBalancerClass `json:"items"`
}
