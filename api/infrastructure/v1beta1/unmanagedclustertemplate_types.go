package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnmanagedClusterTemplateSpec is what is made from a template.
type UnmanagedClusterTemplateSpec struct {
	// +required
	Template UnmanagedClusterTemplateResource `json:"template"`
}

// UnmanagedClusterTemplateResource is an UnmanagedCluster that is to be.
type UnmanagedClusterTemplateResource struct {
	// +optional
	ObjectMeta *ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec UnmanagedClusterSpec `json:"spec,omitempty"`
}

// ObjectMeta is the metadata that a template may give.
type ObjectMeta struct {
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// UnmanagedClusterTemplate is what a ClusterClass refers to in spec.infrastructure.templateRef, where nobody manages the
// infrastructure: a ClusterClass can't leave that out.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=unmanagedclustertemplates,shortName=umct,categories=fairlead;cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UnmanagedClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec UnmanagedClusterTemplateSpec `json:"spec"`
}

// UnmanagedClusterTemplateList is a list of UnmanagedClusterTemplates.
//
// +kubebuilder:object:root=true
type UnmanagedClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnmanagedClusterTemplate `json:"items"`
}
