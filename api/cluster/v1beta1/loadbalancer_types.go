package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Role of a LoadBalancer. Only a control plane's LoadBalancer publishes an endpoint.
//
// +kubebuilder:validation:Enum=ControlPlane;Workload
type Role string

const (
	RoleControlPlane Role = "ControlPlane"
	RoleWorkload     Role = "Workload"
)

// Protocol of a port.
//
// +kubebuilder:validation:Enum=TCP;UDP;SCTP
type Protocol string

const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolSCTP Protocol = "SCTP"
)

// Mode says how much of a connection the data plane understands.
//
// +kubebuilder:validation:Enum=TCP;UDP;HTTP;HTTPS;TLS
type Mode string

const (
	ModeTCP   Mode = "TCP"
	ModeUDP   Mode = "UDP"
	ModeHTTP  Mode = "HTTP"
	ModeHTTPS Mode = "HTTPS"
	ModeTLS   Mode = "TLS"
)

// Endpoint is a host and a port that clients use. Both are set, or neither is.
//
// +kubebuilder:validation:XValidation:rule="(has(self.host) && dyn(self.host) != null && self.host.size() > 0) == (has(self.port) && dyn(self.port) != null && self.port != 0)",message="host and port go together: set both, or leave both out"
// +kubebuilder:validation:XValidation:rule="!has(self.host) || dyn(self.host) == null || self.host.size() == 0 || isIP(self.host) || !format.dns1123Subdomain().validate(self.host.lowerAscii()).hasValue()",message="host must be a DNS name, such as api.example.com, or an IP address",fieldPath=".host"
type Endpoint struct {
	// A DNS name or an IP address.
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// +optional
	// +nullable
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// ObjectReference names an object of the same namespace. It has no version:
// Fairlead asks the API server which one is served.
type ObjectReference struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// KindReference names a kind without a version.
type KindReference struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// Port is one port of a LoadBalancer.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.protocol == (self.mode == 'UDP' ? 'UDP' : 'TCP')",message="mode UDP goes with protocol UDP, and every other mode with protocol TCP",fieldPath=".mode"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || (has(self.mode) && self.mode in ['HTTPS', 'TLS'])",message="tls goes with mode HTTPS or TLS: set the mode, or leave tls out",fieldPath=".tls"
type Port struct {
	// Name, unique among the LoadBalancer's ports.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`
	// +kubebuilder:default=TCP
	Protocol Protocol `json:"protocol,omitempty"`
	// Port that clients connect to.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Port on the targets. Default: port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`
	// Default: the protocol's own, TCP or UDP.
	// +optional
	Mode Mode `json:"mode,omitempty"`
	// Certificates for modes HTTPS and TLS.
	// +optional
	TLS *PortTLS `json:"tls,omitempty"`
}

// PortTLS says with which certificates a port ends TLS.
type PortTLS struct {
	// Secrets of type kubernetes.io/tls in the LoadBalancer's namespace.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	CertificateRefs []SecretReference `json:"certificateRefs"`
}

// SecretReference names a Secret of the same namespace.
type SecretReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// HealthCheckType is how a target is asked whether it can take connections.
//
// +kubebuilder:validation:Enum=TCP;HTTP;HTTPS;None
type HealthCheckType string

const (
	HealthCheckTCP   HealthCheckType = "TCP"
	HealthCheckHTTP  HealthCheckType = "HTTP"
	HealthCheckHTTPS HealthCheckType = "HTTPS"
	HealthCheckNone  HealthCheckType = "None"
)

// HealthCheck says how targets are checked. A field left out comes from the
// TargetGroup's check, the class's, or the default named with the field, in this order of precedence as a whole check.
//
// +kubebuilder:validation:XValidation:rule="!has(self.path) || self.type in ['HTTP', 'HTTPS']",message="path goes with type HTTP or HTTPS: set the type, or leave path out",fieldPath=".path"
// +kubebuilder:validation:XValidation:rule="!has(self.alive) || self.type in ['HTTP', 'HTTPS']",message="alive goes with type HTTP or HTTPS: set the type, or leave alive out",fieldPath=".alive"
type HealthCheck struct {
	Type HealthCheckType `json:"type"`
	// Port asked. Default: the port that traffic goes to.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// Path asked with type HTTP or HTTPS. Default: /.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[^\s]*$`
	Path string `json:"path,omitempty"`
	// Time between two checks. Default: 2s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="interval must be a duration between 100ms and 1h, such as 2s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Time until a check without an answer has failed. Default: 1s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1m')",message="timeout must be a duration between 10ms and 1m, such as 1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Successes in a row until an unhealthy target is healthy. Default: 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Healthy int32 `json:"healthy,omitempty"`
	// Failures in a row until a healthy target is unhealthy. Default: 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Unhealthy int32 `json:"unhealthy,omitempty"`
	// HTTP status codes, beside 200 to 399, that count as success.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Minimum=100
	// +kubebuilder:validation:items:Maximum=599
	// +listType=set
	Alive []int32 `json:"alive,omitempty"`
}

// HookType is the Cluster API hook that holds a Machine's deletion until its member is removed.
//
// +kubebuilder:validation:Enum=PreDrain;PreTerminate;None
type HookType string

const (
	// HookPreDrain holds a Machine before its Node is drained: on every version of Kubernetes before etcd loses the member.
	HookPreDrain HookType = "PreDrain"
	// HookPreTerminate holds it after that, before its infrastructure is deleted.
	HookPreTerminate HookType = "PreTerminate"
	// HookNone holds no Machine.
	HookNone HookType = "None"
)

// OnMaxWait says what happens to a Machine's hook when maxWait has passed.
//
// +kubebuilder:validation:Enum=Release;Block
type OnMaxWait string

const (
	// OnMaxWaitRelease lets the Machine go, whoever may still send to it.
	OnMaxWaitRelease OnMaxWait = "Release"
	// OnMaxWaitBlock holds it until the proxies have stopped.
	OnMaxWaitBlock OnMaxWait = "Block"
)

// MachineHooks says how Machines wait for their removal from the load balancer.
type MachineHooks struct {
	// Default: PreDrain.
	// +optional
	Type HookType `json:"type,omitempty"`
	// Default: 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="maxWait must be a duration between 0s and 720h, such as 10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	MaxWait *metav1.Duration `json:"maxWait,omitempty"`
	// Default: Release.
	// +optional
	OnMaxWait OnMaxWait `json:"onMaxWait,omitempty"`
}

// SessionAffinity says whether a client's connections go to one target.
//
// +kubebuilder:validation:Enum=None;ClientIP
type SessionAffinity string

const (
	SessionAffinityNone     SessionAffinity = "None"
	SessionAffinityClientIP SessionAffinity = "ClientIP"
)

// IPFamily of an address.
//
// +kubebuilder:validation:Enum=IPv4;IPv6
type IPFamily string

const (
	IPv4 IPFamily = "IPv4"
	IPv6 IPFamily = "IPv6"
)

// IPFamilyPolicy as on Service.
//
// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
type IPFamilyPolicy string

const (
	SingleStack      IPFamilyPolicy = "SingleStack"
	PreferDualStack  IPFamilyPolicy = "PreferDualStack"
	RequireDualStack IPFamilyPolicy = "RequireDualStack"
)

// TrafficDistribution says which of the targets that may take a connection are preferred.
//
// +kubebuilder:validation:Enum=PreferSameZone
type TrafficDistribution string

const (
	// PreferSameZone: those in the proxy's own zone, while there is one.
	PreferSameZone TrafficDistribution = "PreferSameZone"
)

// LoadBalancerSpec says: these ports go to those targets, with that technology.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.className) && self.className.size() > 0 && has(self.infrastructureRef))",message="className and infrastructureRef exclude each other: keep one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.className) || oldSelf.className.size() == 0 || (has(self.className) && self.className == oldSelf.className)",message="className is immutable once set: delete the LoadBalancer and create it with the other class"
type LoadBalancerSpec struct {
	// Default: ControlPlane if a Cluster names this LoadBalancer as its control plane's, else Workload.
	// +optional
	Role Role `json:"role,omitempty"`
	// Default: the selector's label cluster.x-k8s.io/cluster-name.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`
	// LoadBalancerClass, by name. Default: the class marked as default, written here by the manager.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// Provider object that implements this LoadBalancer, instead of a class.
	// +optional
	InfrastructureRef *ObjectReference `json:"infrastructureRef,omitempty"`
	// Control planes: the name or address and the port that clients use.
	// +optional
	// +nullable
	Endpoint *Endpoint `json:"endpoint,omitempty"`
	// Further names for the same control plane.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	AlternateEndpoints []Endpoint `json:"alternateEndpoints,omitempty"`
	// Kind of the targets: TargetGroup, Machine, or Node for those of this cluster. Default: Machine with a clusterName, else TargetGroup.
	// +optional
	TargetKind *KindReference `json:"targetKind,omitempty"`
	// Targets, by label. An empty selector counts as not defined.
	// +optional
	// +nullable
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Default for role ControlPlane: one TCP port, {endpoint.port or 6443 → 6443}.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || p.name == '' || self.exists_one(q, has(q.name) && q.name == p.name))",message="each port's name must be unique: rename one, or leave it out"
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Ports []Port `json:"ports,omitempty"`
	// Default: the TargetGroup's check, else the class's, else TCP, of a control plane's Machines with /readyz over HTTPS; for UDP
	// and SCTP none.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`
	// Use all targets when every one fails its check. Default: true.
	// +optional
	FailOpen *bool `json:"failOpen,omitempty"`
	// +optional
	MachineHooks *MachineHooks `json:"machineHooks,omitempty"`
	// Which Machine or Node addresses are used, in order.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=atomic
	AddressTypes []string `json:"addressTypes,omitempty"`
	// Addresses wanted. The manager fills in what it granted, for LoadBalancers that no agent made.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="addresses must be IP addresses, such as 192.0.2.7"
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// AddressPools, by name. Default: the class's.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	AddressPools []string `json:"addressPools,omitempty"`
	// Default: SingleStack.
	// +optional
	IPFamilyPolicy IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self[0] != self[1]",message="ipFamilies names a family twice: name each once"
	// +listType=atomic
	IPFamilies []IPFamily `json:"ipFamilies,omitempty"`
	// Clients allowed, as CIDRs. Empty: all.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r))",message="sourceRanges must be CIDRs, such as 192.0.2.0/24"
	// +listType=atomic
	SourceRanges []string `json:"sourceRanges,omitempty"`
	// Default: None.
	// +optional
	SessionAffinity SessionAffinity `json:"sessionAffinity,omitempty"`
	// Default: 3h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="sessionAffinityTimeout must be a duration between 1s and 24h, such as 3h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	SessionAffinityTimeout *metav1.Duration `json:"sessionAffinityTimeout,omitempty"`
	// Default: all zones alike.
	// +optional
	TrafficDistribution TrafficDistribution `json:"trafficDistribution,omitempty"`
	// Version of the PROXY protocol header sent to targets. Default: none.
	// +optional
	// +kubebuilder:validation:Enum="";V1;V2
	ProxyProtocol string `json:"proxyProtocol,omitempty"`
	// How long open connections of a removed target may run on; 0s: without bound. Default: the class's.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="drainTimeout must be a duration between 0s and 720h, such as 5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	DrainTimeout *metav1.Duration `json:"drainTimeout,omitempty"`
	// How long a connection without traffic stays open; 0s: without bound. Default: 0s. UDP has nothing else that
	// ends a flow: there 0s is the data plane's own bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="idleTimeout must be a duration between 0s and 720h, such as 1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	IdleTimeout *metav1.Duration `json:"idleTimeout,omitempty"`
}

// AddressType tells an IP address from a host name.
//
// +kubebuilder:validation:Enum=IP;Hostname
type AddressType string

const (
	AddressTypeIP       AddressType = "IP"
	AddressTypeHostname AddressType = "Hostname"
)

// LoadBalancerAddress is an address under which a LoadBalancer is served.
type LoadBalancerAddress struct {
	Type AddressType `json:"type"`
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value"`
	// +optional
	Family IPFamily `json:"family,omitempty"`
	// AddressPool that the address comes from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool,omitempty"`
}

// PortStatus is what became of one port.
type PortStatus struct {
	Port     int32    `json:"port"`
	Protocol Protocol `json:"protocol"`
	// Reason why the port is not served, as a condition reason; empty: it is served, or on its way.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Error string `json:"error,omitempty"`
	// Cause, then fix.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// TargetStatus is the state of one target, or names one selected TargetGroup.
type TargetStatus struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// LoadBalancerStatus is what became of a LoadBalancer.
type LoadBalancerStatus struct {
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Addresses []LoadBalancerAddress `json:"addresses,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	Ports []PortStatus `json:"ports,omitempty"`
	// Kind and group of the targets, such as Machine.cluster.x-k8s.io.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	TargetKind string `json:"targetKind,omitempty"`
	// The selector in use, as a label selector string.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	TargetSelector string `json:"targetSelector,omitempty"`
	// Machine and Node targets with their states; the names of selected TargetGroups.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Targets []TargetStatus `json:"targets,omitempty"`
	// Names of the active targets; only for Machine and Node targets.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	ActiveTargets []string `json:"activeTargets,omitempty"`
	// Active and all targets, as 3/3; only for Machine and Node targets.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Members string `json:"members,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LoadBalancer says: these ports go to those targets, with that technology.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=loadbalancers,shortName=lb,categories=fairlead;cluster-api
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[*].value`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.className`
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.members`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have 63 characters at most, for it is also a label value: choose a shorter one"
type LoadBalancer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec LoadBalancerSpec `json:"spec"`
	// +optional
	Status LoadBalancerStatus `json:"status,omitempty"`
}

// LoadBalancerList is a list of LoadBalancers.
//
// +kubebuilder:object:root=true
type LoadBalancerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LoadBalancer `json:"items"`
}
