package controlplane

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &FKSControlPlane{}, &FKSControlPlaneList{}, &FKSControlPlaneTemplate{}, &FKSControlPlaneTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// EndpointFrom says who makes the endpoint.
//
// +kubebuilder:validation:Enum=Service;Cluster
type EndpointFrom string

const (
	// FromService: the Foo Kubernetes Service does.
	FromService EndpointFrom = "Service"
	// FromCluster: somebody else does, and the Cluster has it before the control plane is made.
	FromCluster EndpointFrom = "Cluster"
)

// FKSControlPlaneSpec is what the service is to run.
type FKSControlPlaneSpec struct {
	// Kubernetes version, such as v1.37.0.
	// +kubebuilder:validation:Pattern=`^v[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$`
	// +kubebuilder:validation:MaxLength=32
	Version string `json:"version"`
	// Who makes the endpoint. Default: Service. Immutable.
	// +optional
	// +kubebuilder:default=Service
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="endpointFrom is immutable: make another control plane"
	EndpointFrom EndpointFrom `json:"endpointFrom,omitempty"`
	// Where the service listens. Default: at an address of its own, or at the Cluster's endpoint where endpointFrom is Cluster.
	// +optional
	Address *clusterv1.Endpoint `json:"address,omitempty"`
	// Its name in the service, which the provider writes as soon as it has made it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
}

// FKSControlPlaneStatus is what Cluster API's contract for control planes asks for, and what was made.
type FKSControlPlaneStatus struct {
	// +optional
	Initialization *Initialization `json:"initialization,omitempty"`
	// The same, as the contract before v1beta2 has it.
	// +optional
	Initialized bool `json:"initialized,omitempty"`
	// Provisioning is complete, as the contract before v1beta2 has it.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// Always true: no Machine of the Cluster is a control plane's.
	// +optional
	ExternalManagedControlPlane bool `json:"externalManagedControlPlane,omitempty"`
	// Kubernetes version that the service runs.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// Where it is reached.
	// +optional
	Endpoint *clusterv1.Endpoint `json:"endpoint,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Initialization is how far the control plane was ever.
type Initialization struct {
	// It was there. It stays true, as Cluster API wants it: the condition Available says what is so now.
	ControlPlaneInitialized bool `json:"controlPlaneInitialized"`
}

// FKSControlPlane is a control plane that the Foo Kubernetes Service runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fkscontrolplanes,shortName=fkscp,categories=cluster-api
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].reason`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.endpoint.host`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FKSControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FKSControlPlaneSpec `json:"spec"`
	// +optional
	Status FKSControlPlaneStatus `json:"status,omitempty"`
}

// FKSControlPlaneList is a list of FKSControlPlanes.
//
// +kubebuilder:object:root=true
type FKSControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FKSControlPlane `json:"items"`
}

// FKSControlPlaneTemplateSpec is what is made from a template.
type FKSControlPlaneTemplateSpec struct {
	// +required
	Template FKSControlPlaneTemplateResource `json:"template"`
}

// FKSControlPlaneTemplateResource is an FKSControlPlane that is to be.
type FKSControlPlaneTemplateResource struct {
	// +optional
	ObjectMeta *ObjectMeta `json:"metadata,omitempty"`
	// +optional
	Spec FKSControlPlaneTemplateResourceSpec `json:"spec,omitempty"`
}

// FKSControlPlaneTemplateResourceSpec has no version: a Cluster's topology gives it.
type FKSControlPlaneTemplateResourceSpec struct {
	// Who makes the endpoint. Default: Service.
	// +optional
	EndpointFrom EndpointFrom `json:"endpointFrom,omitempty"`
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

// FKSControlPlaneTemplate is what a ClusterClass refers to in spec.controlPlane.templateRef.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:resource:path=fkscontrolplanetemplates,shortName=fkscpt,categories=cluster-api
type FKSControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FKSControlPlaneTemplateSpec `json:"spec"`
}

// FKSControlPlaneTemplateList is a list of FKSControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type FKSControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FKSControlPlaneTemplate `json:"items"`
}

// Conditions of an FKSControlPlane, and their reasons. Each comment says what the user does.
const (
	// ConditionAvailable: the service runs it, and says that it is well.
	ConditionAvailable = "Available"
	// ConditionPaused: it, or its Cluster, is paused, and nothing is done.
	ConditionPaused = "Paused"

	// ReasonAvailable asks nothing of anybody.
	ReasonAvailable = "Available"
	// ReasonWaitingForCluster: no Cluster owns it; name it in spec.controlPlaneRef of one.
	ReasonWaitingForCluster = "WaitingForCluster"
	// ReasonWaitingForInfrastructure: the Cluster's infrastructure isn't provisioned; wait, or see to its infrastructureRef.
	ReasonWaitingForInfrastructure = "WaitingForInfrastructure"
	// ReasonWaitingForEndpoint: the Cluster has no endpoint yet; have its InfraCluster or somebody else make a ClusterEndpoint.
	ReasonWaitingForEndpoint = "WaitingForEndpoint"
	// ReasonServiceFailed: the service failed, and is asked again; the message has its words.
	ReasonServiceFailed = "ServiceFailed"
	// ReasonPending: the service is at it; wait.
	ReasonPending = "Pending"
	// ReasonKubeconfigTaken: the Secret with the Cluster's kubeconfig is somebody else's; delete it, and this one's is made.
	ReasonKubeconfigTaken = "KubeconfigTaken"
	// ReasonEndpointTaken: another ClusterEndpoint has the name that this one's would have; the message says which.
	ReasonEndpointTaken = "EndpointTaken"
	// ReasonDeleting: it is being deleted; wait.
	ReasonDeleting = "Deleting"
	// ReasonPaused and ReasonNotPaused ask nothing of anybody.
	ReasonPaused    = "Paused"
	ReasonNotPaused = "NotPaused"
)
