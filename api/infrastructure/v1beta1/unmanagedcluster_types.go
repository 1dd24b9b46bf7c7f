package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnmanagedClusterSpec has nothing to say: nobody manages the infrastructure, and the endpoint is the Cluster's.
type UnmanagedClusterSpec struct{}

// UnmanagedClusterStatus is what Cluster API's contract for InfraClusters asks for.
type UnmanagedClusterStatus struct {
	// +optional
	Initialization *Initialization `json:"initialization,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is how far the infrastructure was ever.
type Initialization struct {
	// The Cluster has, or had, an endpoint. It stays true, as Cluster API wants it.
	Provisioned bool `json:"provisioned"`
}

// Conditions of an UnmanagedCluster, and their reasons. Each comment says what the user does.
const (
	// ConditionReady: its Cluster has an endpoint. Cluster API shows it as the Cluster's InfrastructureReady.
	ConditionReady = "Ready"
	// ConditionPaused: it, or its Cluster, is paused, and nothing else is written.
	ConditionPaused = "Paused"

	// ReasonReady asks nothing of anybody.
	ReasonReady = "Ready"
	// ReasonWaitingForCluster: no Cluster owns it; name it in spec.infrastructureRef of one, and Cluster API sees to the rest.
	ReasonWaitingForCluster = "WaitingForCluster"
	// ReasonWaitingForEndpoint: the Cluster has no endpoint, and nobody who runs its control plane makes one; make a ClusterEndpoint, or set
	// the Cluster's spec.controlPlaneEndpoint.
	ReasonWaitingForEndpoint = "WaitingForEndpoint"
	// ReasonPaused and ReasonNotPaused ask nothing of anybody.
	ReasonPaused    = "Paused"
	ReasonNotPaused = "NotPaused"
)

// UnmanagedCluster is infrastructure that nobody manages, as a Cluster API Cluster refers to it in spec.infrastructureRef. It is
// provisioned as soon as the Cluster has an endpoint.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=unmanagedclusters,shortName=umc,categories=fairlead;cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UnmanagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec UnmanagedClusterSpec `json:"spec,omitempty"`
	// +optional
	Status UnmanagedClusterStatus `json:"status,omitempty"`
}

// UnmanagedClusterList is a list of UnmanagedClusters.
//
// +kubebuilder:object:root=true
type UnmanagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []UnmanagedCluster `json:"items"`
}
