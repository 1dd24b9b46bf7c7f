package infrastructure

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FKSCluster{}, &FKSClusterList{}, &FKSClusterTemplate{}, &FKSClusterTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// FKSClusterSpec says what is made beside the control plane. It has no controlPlaneEndpoint: who makes the endpoint publishes it by a ClusterEndpoint.
//
// +kubebuilder:validation:XValidation:rule="(!has(oldSelf.bastion) || has(self.bastion)) && (!has(oldSelf.endpoint) || has(self.endpoint))",message="bastion and endpoint can't be taken away once they are set: make another FKSCluster"
type FKSClusterSpec struct {
	// A host to reach Machines through. Default: none.
	// +optional
	Bastion *Piece `json:"bastion,omitempty"`
	// The endpoint, for a control plane whose spec.endpointFrom is Cluster. Default: the control plane makes its own.
	// +optional
	Endpoint *Piece `json:"endpoint,omitempty"`
}

// Piece is a piece of infrastructure that is wanted.
type Piece struct {
	// Its name in the cloud, which the provider writes as soon as it has made it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
}

// FKSClusterStatus is what Cluster API's contract for InfraClusters asks for, and what was made.
type FKSClusterStatus struct {
	// +optional
	Initialization *Initialization `json:"initialization,omitempty"`
	// The same, as the contract before v1beta2 has it.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Address of the bastion.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Bastion string `json:"bastion,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is how far the infrastructure was ever.
type Initialization struct {
	// All that was asked for was there. It stays true, as Cluster API wants it: the condition Ready says what is so now.
	Provisioned bool `json:"provisioned"`
}

// FKSCluster is the part of a Cluster's infrastructure that the Foo Kubernetes Service doesn't bring by itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fksclusters,shortName=fksc,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FKSCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec FKSClusterSpec `json:"spec,omitempty"`
	// +optional
	Status FKSClusterStatus `json:"status,omitempty"`
}

// FKSClusterList is a list of FKSClusters.
//
// +kubebuilder:object:root=true
type FKSClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FKSCluster `json:"items"`
}

// FKSClusterTemplateSpec is what is made from a template.
type FKSClusterTemplateSpec struct {
	// +required
	Template FKSClusterTemplateResource `json:"template"`
}

// FKSClusterTemplateResource is an FKSCluster that is to be.
type FKSClusterTemplateResource struct {
	// +optional
	ObjectMeta *ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec FKSClusterSpec `json:"spec,omitempty"`
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

// FKSClusterTemplate is what a ClusterClass refers to in spec.infrastructure.templateRef.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fksclustertemplates,shortName=fksct,categories=cluster-api
type FKSClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FKSClusterTemplateSpec `json:"spec"`
}

// FKSClusterTemplateList is a list of FKSClusterTemplates.
//
// +kubebuilder:object:root=true
type FKSClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FKSClusterTemplate `json:"items"`
}

// Conditions of an FKSCluster, and their reasons. Each comment says what the user does.
const (
	// ConditionReady: all that is asked for is there.
	ConditionReady = "Ready"
	// ConditionPaused: it, or its Cluster, is paused, and nothing is done.
	ConditionPaused = "Paused"

	// ReasonReady asks nothing of anybody.
	ReasonReady = "Ready"
	// ReasonWaitingForCluster: no Cluster owns it; name it in spec.infrastructureRef of one.
	ReasonWaitingForCluster = "WaitingForCluster"
	// ReasonCloudFailed: the cloud failed, and is asked again; the message has its words.
	ReasonCloudFailed = "CloudFailed"
	// ReasonEndpointTaken: another ClusterEndpoint has the name that this one's would have; the message says which.
	ReasonEndpointTaken = "EndpointTaken"
	// ReasonDeleting: what was made is being deleted; wait.
	ReasonDeleting = "Deleting"
	// ReasonPaused and ReasonNotPaused ask nothing of anybody.
	ReasonPaused    = "Paused"
	ReasonNotPaused = "NotPaused"
)
