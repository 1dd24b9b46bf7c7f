package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FooLoadBalancerTemplate is what a class makes FooLoadBalancers from.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fooloadbalancertemplates,shortName=foolbt,categories=cluster-api
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FooLoadBalancerTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FooLoadBalancerTemplateSpec `json:"spec"`
}

// FooLoadBalancerTemplateSpec holds the template.
type FooLoadBalancerTemplateSpec struct {
	Template FooLoadBalancerTemplateResource `json:"template"`
}

// FooLoadBalancerTemplateResource is the FooLoadBalancer to make. Leave endpoint and id out: each has its own.
type FooLoadBalancerTemplateResource struct {
	// +optional
	Metadata TemplateMeta `json:"metadata,omitempty"`
	// +optional
	Spec FooLoadBalancerSpec `json:"spec,omitempty"`
}

// TemplateMeta are labels and annotations of what is made.
type TemplateMeta struct {
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// FooLoadBalancerTemplateList is a list of FooLoadBalancerTemplates.
//
// +kubebuilder:object:root=true
type FooLoadBalancerTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FooLoadBalancerTemplate `json:"items"`
}
