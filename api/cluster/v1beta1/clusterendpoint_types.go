package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterEndpointType is the function that an endpoint serves. The two that there are mean the same.
//
// +kubebuilder:validation:Enum=apiserver;ExternalControlPlaneEndpoint
type ClusterEndpointType string

const (
	ClusterEndpointAPIServer            ClusterEndpointType = "apiserver"
	ClusterEndpointExternalControlPlane ClusterEndpointType = "ExternalControlPlaneEndpoint"
)

// ClusterEndpointSpec says: this host and port, or those of this Service, reach that cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.host) == has(self.port)",message="host and port go together: set both, or leave both out for serviceRef"
// +kubebuilder:validation:XValidation:rule="has(self.host) || has(self.port) || has(self.serviceRef)",message="host and port, or serviceRef, must say where the cluster is reached: set one of the two"
// +kubebuilder:validation:XValidation:rule="!has(self.serviceRef) || !has(self.host) && !has(self.port)",message="host and port, and serviceRef, exclude each other: keep one of the two"
type ClusterEndpointSpec struct {
	// Cluster API Cluster of the same namespace. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cluster is immutable: delete the ClusterEndpoint, and create one for the other Cluster"
	Cluster string `json:"cluster"`
	// A DNS name or an IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || !format.dns1123Subdomain().validate(self.lowerAscii()).hasValue()",message="host must be a DNS name, such as api.example.com, or an IP address"
	Host string `json:"host,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Service that has host and port, in place of these, as that of a control plane which runs as Pods.
	// +optional
	ServiceRef *ServiceReference   `json:"serviceRef,omitempty"`
	Type       ClusterEndpointType `json:"type"`
	// Of several for one Cluster, the one that the Cluster shows. A lone one is it anyway.
	// +optional
	Primary bool `json:"primary,omitempty"`
}

// ServiceReference names a Service of the same namespace, of type LoadBalancer or ClusterIP.
type ServiceReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Name or number of one of its TCP ports. Where it has one alone, that.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self != '' && self.size() <= 63",message="port must be the name of one of the Service's ports, or its number, from 1 to 65535"
	Port *intstr.IntOrString `json:"port,omitempty"`
}

// ClusterEndpointStatus is what became of it.
type ClusterEndpointStatus struct {
	// Where the Service of spec.serviceRef is reached now. Empty: nowhere yet, or there is no serviceRef.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// +optional
	Port int32 `json:"port,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a ClusterEndpoint, and their reasons. Each comment says what the user does.
const (
	// ConditionSurfaced: its Cluster has this host and port in spec.controlPlaneEndpoint.
	ConditionSurfaced = "Surfaced"
	// ConditionInfraClusterTold: the Cluster's InfraCluster has it too, where that needs to be told; of the primary alone.
	ConditionInfraClusterTold = "InfraClusterTold"

	// ReasonSurfaced asks nothing of anybody.
	ReasonSurfaced = "Surfaced"
	// ReasonNotPrimary: another ClusterEndpoint of the Cluster is primary; nothing to do, unless this one is meant.
	ReasonNotPrimary = "NotPrimary"
	// ReasonNoPrimary: there are several, and not just one says that it is primary; set spec.primary on one.
	ReasonNoPrimary = "NoPrimary"
	// ReasonEndpointConflict: the Cluster has another endpoint that is in use; make them the same, or accept this one with
	// the annotation fairlead.dev/accept-endpoint of the Cluster.
	ReasonEndpointConflict = "EndpointConflict"
	// ReasonEndpointIncomplete: the Cluster's spec.controlPlaneEndpoint has a host or a port of another; set both, or neither.
	ReasonEndpointIncomplete = "EndpointIncomplete"
	// ReasonLegacyEndpoint: it mirrors what the InfraCluster says in its own spec.controlPlaneEndpoint, a way that is to end;
	// have its provider make a ClusterEndpoint, or make one.
	ReasonLegacyEndpoint = "LegacyEndpoint"
	// ReasonInfraCompetes: the InfraCluster makes an endpoint of its own; switch that off in the field that the message names.
	ReasonInfraCompetes = "InfraCompetes"
	// ReasonInfraDiffers: the InfraCluster has another endpoint; make them the same.
	ReasonInfraDiffers = "InfraDiffers"
	// ReasonInfraNotFound: the InfraCluster is to be told, and isn't there yet or can't be read; create it, or wait.
	ReasonInfraNotFound = "InfraNotFound"
	// ReasonClusterNotFound: there is no such Cluster in the namespace; create it, or delete the ClusterEndpoint.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonServiceNotFound: the namespace has no such Service, or it is being deleted; create it, or name another in spec.serviceRef.
	ReasonServiceNotFound = "ServiceNotFound"
	// ReasonServicePending: the Service has no address yet; wait for whoever gives it one, or see to its class and its events.
	ReasonServicePending = "ServicePending"
	// ReasonServicePortNotFound: the Service has no such TCP port, or several and none is named; name one in spec.serviceRef.port.
	ReasonServicePortNotFound = "ServicePortNotFound"
	// ReasonServiceNotSupported: the Service has no address of its own; make it one of type LoadBalancer, or set host and port.
	ReasonServiceNotSupported = "ServiceNotSupported"
)

const (
	// ClusterNameLabel is Cluster API's, on all that is a Cluster's.
	ClusterNameLabel = "cluster.x-k8s.io/cluster-name"
	// GeneratedFromAnnotation marks a ClusterEndpoint that mirrors its Cluster, made where nobody made one; its value is the
	// kind that the endpoint came from. Without the annotation it is somebody's own.
	GeneratedFromAnnotation = "fairlead.dev/generated-from"
	// GeneratedForAnnotation on one that is generated is the UID of the Cluster that it mirrors: another Cluster that gets the
	// name later is given nothing of it.
	GeneratedForAnnotation = "fairlead.dev/generated-for"
	// AcceptEndpointAnnotation on a Cluster says, as host:port, which endpoint is meant though another is in use.
	AcceptEndpointAnnotation = "fairlead.dev/accept-endpoint"
)

// ClusterEndpoint is an endpoint of a Cluster API Cluster, as the proposal for flexible managed endpoints has it. It surfaces
// on Cluster.spec.controlPlaneEndpoint, and takes precedence over what an InfraCluster says.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clusterendpoints,shortName=cep,categories=fairlead;cluster-api
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Port",type=integer,JSONPath=`.spec.port`
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.serviceRef.name`
// +kubebuilder:printcolumn:name="Surfaced",type=string,JSONPath=`.status.conditions[?(@.type=="Surfaced")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Surfaced")].reason`
// +kubebuilder:printcolumn:name="Service-Host",type=string,priority=1,JSONPath=`.status.host`
// +kubebuilder:printcolumn:name="Service-Port",type=integer,priority=1,JSONPath=`.status.port`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ClusterEndpointSpec `json:"spec"`
	// +optional
	Status ClusterEndpointStatus `json:"status,omitempty"`
}

// ClusterEndpointList is a list of ClusterEndpoints.
//
// +kubebuilder:object:root=true
type ClusterEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterEndpoint `json:"items"`
}
