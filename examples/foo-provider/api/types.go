package api

import (
	"fairlead.dev/fairlead/provider/contract"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FooLoadBalancer{}, &FooLoadBalancerList{}, &FooLoadBalancerTemplate{}, &FooLoadBalancerTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// FooLoadBalancerSpec is the contract's, and what only Foo knows.
type FooLoadBalancerSpec struct {
	contract.Spec `json:",inline"`
	// Connections that may be open at once; the next ones are refused. Default: any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxConnections int64 `json:"maxConnections,omitempty"`
}

// FooLoadBalancerStatus is the contract's.
type FooLoadBalancerStatus struct {
	contract.Status `json:",inline"`
}

// FooLoadBalancer is a load balancer of the Foo cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fooloadbalancers,shortName=foolb,categories=cluster-api
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.endpoint.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.endpoint.port`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.activeTargets`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FooLoadBalancer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec FooLoadBalancerSpec `json:"spec,omitempty"`
	// +optional
	Status FooLoadBalancerStatus `json:"status,omitempty"`
}

// Contract returns what the controller of all providers reads and writes.
func (f *FooLoadBalancer) Contract() (*contract.Spec, *contract.Status) {
	return &f.Spec.Spec, &f.Status.Status
}

// FooLoadBalancerList is a list of FooLoadBalancers.
//
// +kubebuilder:object:root=true
type FooLoadBalancerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FooLoadBalancer `json:"items"`
}
