package v1alpha1

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fence says that a proxy cannot serve, or must stop.
type Fence struct {
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// ProxySpec says where a proxy stands.
type ProxySpec struct {
	// Proxies of one pool serve the same addresses. Immutable: whoever creates the Proxy binds its identity to the pool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="pool is immutable: delete the Proxy, then start it with the other pool"
	Pool string `json:"pool"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// The proxy host's own addresses.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=45
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// Machine that the proxy runs on; the manager fences the proxy when it is gone.
	// +optional
	MachineRef *MachineReference `json:"machineRef,omitempty"`
	// Set by a person, or by the manager when the Machine is gone.
	// +optional
	Fenced *Fence `json:"fenced,omitempty"`
}

// MachineReference names a Cluster API Machine.
type MachineReference struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ProxyPhase is what a proxy does.
//
// +kubebuilder:validation:Enum=Starting;Serving;Left
type ProxyPhase string

const (
	// ProxyStarting: registered, nothing applied yet.
	ProxyStarting ProxyPhase = "Starting"
	// ProxyServing: its first full apply is done.
	ProxyServing ProxyPhase = "Serving"
	// ProxyLeft: it emptied its data plane and said goodbye.
	ProxyLeft ProxyPhase = "Left"
)

// Through is the input vector of one Program whose Apply returned: for each
// resource that is built from, the resource version up to which all was
// applied, but for the exceptions in the proxy's ProxyReports.
type Through struct {
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LoadBalancers string `json:"loadbalancers,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TargetGroups string `json:"targetgroups,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Addresses string `json:"addresses,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LoadBalancerClasses string `json:"loadbalancerclasses,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Tenants string `json:"tenants,omitempty"`
}

// ProxyStatus is how far a proxy has come; docs/architecture.md says who may believe what.
type ProxyStatus struct {
	// A fresh random value for each start of the process.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Boot string `json:"boot,omitempty"`
	// A counter raised by each status write.
	// +optional
	Seq int64 `json:"seq,omitempty"`
	// UID of the hub's kube-system namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	HubUID string `json:"hubUID,omitempty"`
	// The hub's epoch that this proxy adopted last; docs/decisions/0016 says what an epoch is.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Epoch int64 `json:"epoch,omitempty"`
	// The epoch in which this proxy followed the hub again that had changed under it; 0: that never happened.
	// Proxies that were there when the hub changed are told by it from those that are new.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ThawedEpoch int64 `json:"thawedEpoch,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Dataplane string `json:"dataplane,omitempty"`
	// +optional
	Phase ProxyPhase `json:"phase,omitempty"`
	// +optional
	Through Through `json:"through,omitempty"`
	// The highest resource version that this boot's ProxyReport writes returned.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reports string `json:"reports,omitempty"`
	// Namespaces whose ProxyReport could not be written: it proves nothing there.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Held []string `json:"held,omitempty"`
	// Frontends served.
	// +optional
	Frontends int32 `json:"frontends"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Proxy is one proxy process, written by itself; a Lease of the same name stands beside it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=proxies,scope=Cluster,shortName=px,categories=fairlead
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Dataplane",type=string,JSONPath=`.status.dataplane`
// +kubebuilder:printcolumn:name="Frontends",type=integer,JSONPath=`.status.frontends`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have 63 characters at most: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.fenced) || has(self.spec.fenced) || !has(self.status) || !has(self.status.boot) || has(self.status.phase) && self.status.phase == 'Left' || has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'Ready' && c.reason == 'Fenced')",message="the proxy has not said yet that it is fenced (Ready=False, Fenced), and may come back with what it served: start it first, or delete this Proxy"
type Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ProxySpec `json:"spec"`
	// +optional
	Status ProxyStatus `json:"status,omitempty"`
}

// ProxyList is a list of Proxies.
//
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Proxy `json:"items"`
}

// Problem is why something is not served: cause, then fix.
type Problem struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Field string `json:"field,omitempty"`
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// RefusedFrontend is a port of a LoadBalancer that a proxy doesn't serve, or not as the LoadBalancer says.
type RefusedFrontend struct {
	// +kubebuilder:validation:MaxLength=63
	LoadBalancer string `json:"loadBalancer"`
	// 0: the whole LoadBalancer.
	// +optional
	Port int32 `json:"port,omitempty"`
	// +optional
	Protocol clusterv1.Protocol `json:"protocol,omitempty"`
	Problem  Problem            `json:"problem"`
}

// ReportedState is the state of a member that is not plainly healthy.
//
// +kubebuilder:validation:Enum=Unchecked;Unhealthy;Draining;Gone
type ReportedState string

const (
	// ReportedUnchecked: no check has had a result yet; it is used.
	ReportedUnchecked ReportedState = "Unchecked"
	// ReportedUnhealthy: it fails its check.
	ReportedUnhealthy ReportedState = "Unhealthy"
	// ReportedDraining: it gets no new connection; some are open.
	ReportedDraining ReportedState = "Draining"
	// ReportedGone: it gets no new connection, and none is open.
	ReportedGone ReportedState = "Gone"
)

// ReportedMember is a member that is not plainly healthy.
type ReportedMember struct {
	// +kubebuilder:validation:MaxLength=253
	TargetGroup string `json:"targetGroup"`
	// +kubebuilder:validation:MaxLength=64
	GroupUID string `json:"groupUID"`
	// +kubebuilder:validation:MaxLength=253
	Target string `json:"target"`
	// +kubebuilder:validation:MaxLength=64
	TargetUID string `json:"targetUID"`
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// The check that speaks, such as HTTP:10256/healthz.
	// +optional
	// +kubebuilder:validation:MaxLength=1100
	Check string        `json:"check,omitempty"`
	State ReportedState `json:"state"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// +optional
	OpenConnections int64 `json:"openConnections,omitempty"`
}

// ReportedAddress is an address of this namespace that is being released.
type ReportedAddress struct {
	// Name of the Address.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of the Address, so that a later grant of the same address inherits nothing.
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// Draining or Gone.
	State ReportedState `json:"state"`
	// +optional
	OpenConnections int64 `json:"openConnections,omitempty"`
}

// ServedAddress is an address that a proxy whose hub changed goes on serving for
// a LoadBalancer of this namespace, though the hub's ledger doesn't grant it to that.
type ServedAddress struct {
	// Name of the Address, whether there is one or not.
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// +kubebuilder:validation:MaxLength=63
	LoadBalancer string `json:"loadBalancer"`
	// Protocol/port, such as TCP/80.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern=`^(TCP|UDP|SCTP)/[0-9]{1,5}$`
	// +kubebuilder:validation:items:MaxLength=10
	// +listType=atomic
	Ports []string `json:"ports,omitempty"`
}

// MissingServedAddress is one that is served for a LoadBalancer of a namespace that the hub hasn't.
type MissingServedAddress struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace     string `json:"namespace"`
	ServedAddress `json:",inline"`
}

// ProxyReport holds what a proxy can't or doesn't plainly do for one
// namespace. Without exceptions it does not exist. It is named after its Proxy.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=proxyreports,shortName=pxr,categories=fairlead
// +kubebuilder:printcolumn:name="Refused",type=string,JSONPath=`.refused[*].problem.reason`
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.members[*].state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProxyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Boot of the process that says so; an entry of an older boot is void.
	// +kubebuilder:validation:MaxLength=64
	Boot string `json:"boot"`
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Refused []RefusedFrontend `json:"refused,omitempty"`
	// What is served, but for the field that the problem names: this proxy's data plane can't do it. It never holds
	// more than fits; what doesn't is left out.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	ServedWithout []RefusedFrontend `json:"servedWithout,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Members []ReportedMember `json:"members,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Addresses []ReportedAddress `json:"addresses,omitempty"`
	// What is served here against the hub's ledger, while the hub is not the one that it was.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	Serves []ServedAddress `json:"serves,omitempty"`
	// What is served so for namespaces that the hub hasn't, and that take no report therefore: in the namespace
	// fairlead-system alone.
	// +optional
	// +kubebuilder:validation:MaxItems=500
	// +listType=atomic
	ServesMissing []MissingServedAddress `json:"servesMissing,omitempty"`
	// There were more entries than fit: this report proves nothing.
	// +optional
	Truncated bool `json:"truncated,omitempty"`
}

// ProxyReportList is a list of ProxyReports.
//
// +kubebuilder:object:root=true
type ProxyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProxyReport `json:"items"`
}
