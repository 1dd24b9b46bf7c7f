package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ExternalControlPlaneSpec says what is known of a control plane before it is reached.
type ExternalControlPlaneSpec struct {
	// The endpoint that the Cluster gets if it has none, once the control plane was reached. Default: none, for a Cluster that has
	// one, or gets it by a ClusterEndpoint. It is reached at the server of the kubeconfig, whatever this is.
	// +optional
	ControlPlaneEndpoint *APIEndpoint `json:"controlPlaneEndpoint,omitempty"`
	// UID of the namespace kube-system in the cluster that is meant. Default: in the one that was reached first.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ClusterUID string `json:"clusterUID,omitempty"`
}

// APIEndpoint is where an API server is reached.
type APIEndpoint struct {
	// A DNS name or an IP address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !format.dns1123Subdomain().validate(self.lowerAscii()).hasValue()",message="host must be a DNS name, such as api.example.com, or an IP address"
	Host string `json:"host"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ExternalControlPlaneStatus is what Cluster API's contract for control planes asks for, and what was found.
type ExternalControlPlaneStatus struct {
	// +optional
	Initialization *Initialization `json:"initialization,omitempty"`
	// Always true: no Machine of the Cluster is a control plane's.
	// +optional
	ExternalManagedControlPlane bool `json:"externalManagedControlPlane,omitempty"`
	// Kubernetes version that the API server said last, such as v1.37.0.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// UID of the namespace kube-system in the cluster that was reached, and is taken for the one that is meant.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ClusterUID string `json:"clusterUID,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is how far the control plane was ever.
type Initialization struct {
	// The control plane was reached. It stays true while that is not so later, as Cluster API wants it: the condition Available
	// says what is so now.
	ControlPlaneInitialized bool `json:"controlPlaneInitialized"`
}

// Conditions of an ExternalControlPlane, and their reasons. Each comment says what the user does.
const (
	// ConditionAvailable: its API server answers, to the kubeconfig in its Cluster's Secret, and is the one that is meant.
	// Cluster API shows it as the Cluster's ControlPlaneAvailable.
	ConditionAvailable = "Available"
	// ConditionPaused: it, or its Cluster, is paused, and nothing is asked or written.
	ConditionPaused = "Paused"

	// ReasonAvailable asks nothing of anybody.
	ReasonAvailable = "Available"
	// ReasonWaitingForCluster: no Cluster owns it; name it in spec.controlPlaneRef of one, and Cluster API sees to the rest.
	ReasonWaitingForCluster = "WaitingForCluster"
	// ReasonKubeconfigMissing: there is no Secret with the kubeconfig; create it.
	ReasonKubeconfigMissing = "KubeconfigMissing"
	// ReasonKubeconfigForbidden: the manager may not read the Secret; apply config/rbac/cluster-api.
	ReasonKubeconfigForbidden = "KubeconfigForbidden"
	// ReasonKubeconfigInvalid: what is in the Secret can't be used; mend what the message names.
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	// ReasonUnreachable: the server of the kubeconfig can't be reached; see to what the message names, or mend the kubeconfig.
	ReasonUnreachable = "Unreachable"
	// ReasonUnauthorized: the API server refuses the kubeconfig's user; renew the credentials, or give it the right.
	ReasonUnauthorized = "Unauthorized"
	// ReasonNotReady: what answers doesn't do so as an API server that is well; wait, or see to it.
	ReasonNotReady = "NotReady"
	// ReasonOtherCluster: the kubeconfig leads to another cluster than before; mend it, or set spec.clusterUID to the one that is meant.
	ReasonOtherCluster = "OtherCluster"
	// ReasonPaused and ReasonNotPaused ask nothing of anybody.
	ReasonPaused    = "Paused"
	ReasonNotPaused = "NotPaused"
)

// ExternalControlPlane is a control plane that somebody else runs, as a Cluster API Cluster refers to it in
// spec.controlPlaneRef. It is reached with the kubeconfig in the Secret of the Cluster's name and -kubeconfig.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=externalcontrolplanes,shortName=xcp,categories=fairlead;cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ExternalControlPlaneSpec `json:"spec,omitempty"`
	// +optional
	Status ExternalControlPlaneStatus `json:"status,omitempty"`
}

// ExternalControlPlaneList is a list of ExternalControlPlanes.
//
// +kubebuilder:object:root=true
type ExternalControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalControlPlane `json:"items"`
}
