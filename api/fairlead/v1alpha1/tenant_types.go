package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Exposure names the classes behind the words of the annotation kubelb.expose.
type Exposure struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Extern string `json:"extern,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Intern string `json:"intern,omitempty"`
}

// TenantQuota bounds what a Tenant may have; nil: no bound.
type TenantQuota struct {
	// +optional
	// +kubebuilder:validation:Minimum=0
	LoadBalancers *int32 `json:"loadBalancers,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Addresses *int32 `json:"addresses,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ports *int32 `json:"ports,omitempty"`
	// +optional
	// +kubebuilder:validation:Minimum=0
	Targets *int32 `json:"targets,omitempty"`
}

// TenantSpec says what a tenant cluster may do.
type TenantSpec struct {
	// Namespace of the hub that belongs to this Tenant. Default: its name. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="namespace must be a namespace's name: lower-case letters, digits and hyphens, such as prod-eu"
	Namespace string `json:"namespace,omitempty"`
	// Domain of its host names. Default: its name below the hub's domain.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Domain string `json:"domain,omitempty"`
	// Host names that it may use beyond its own domain.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Hostnames []string `json:"hostnames,omitempty"`
	// Where its targets may lie. A target elsewhere gets no traffic.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r))",message="targetCIDRs must be CIDRs, such as 10.1.0.0/16"
	// +listType=atomic
	TargetCIDRs []string `json:"targetCIDRs,omitempty"`
	// LoadBalancerClasses that it may use. Empty: all.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Classes []string `json:"classes,omitempty"`
	// Class of LoadBalancers that name none. Default: the hub's default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DefaultClass string `json:"defaultClass,omitempty"`
	// +optional
	Exposure *Exposure `json:"exposure,omitempty"`
	// +optional
	Quota *TenantQuota `json:"quota,omitempty"`
	// A suspended Tenant keeps its objects and addresses; nothing of it is served.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// TenantUsage counts what a Tenant has.
type TenantUsage struct {
	// +optional
	LoadBalancers int32 `json:"loadBalancers"`
	// +optional
	Addresses int32 `json:"addresses"`
	// +optional
	Ports int32 `json:"ports"`
	// +optional
	Targets int32 `json:"targets"`
}

// TenantStatus is what the manager knows of a tenant cluster.
type TenantStatus struct {
	// UID of the cluster's kube-system namespace, bound at the agent's first contact.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	AgentVersion string `json:"agentVersion,omitempty"`
	// +optional
	Usage *TenantUsage `json:"usage,omitempty"`
	// The hub's present epoch; it rises when proxies find that the hub is not the one that it was.
	// +optional
	// +kubebuilder:validation:Minimum=0
	HubEpoch int64 `json:"hubEpoch,omitempty"`
	// The epoch in which this Tenant's agent has written all its objects again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AgentEpoch int64 `json:"agentEpoch,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Tenant is a cluster whose Services, Ingresses and Gateways this hub serves.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=tenants,scope=Cluster,categories=fairlead
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Agent",type=string,JSONPath=`.status.conditions[?(@.type=="AgentConnected")].status`
// +kubebuilder:printcolumn:name="LoadBalancers",type=integer,JSONPath=`.status.usage.loadBalancers`
// +kubebuilder:printcolumn:name="Addresses",type=integer,JSONPath=`.status.usage.addresses`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have 63 characters at most, for it is also a label value: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.__namespace__)) || !self.metadata.name.contains('.')",message="metadata.name must have no dots, for it becomes a namespace: choose another, or set spec.namespace"
// +kubebuilder:validation:XValidation:rule="(has(self.spec) && has(self.spec.__namespace__) ? self.spec.__namespace__ : self.metadata.name) == (has(oldSelf.spec) && has(oldSelf.spec.__namespace__) ? oldSelf.spec.__namespace__ : oldSelf.metadata.name)",message="spec.namespace is immutable: create another Tenant"
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TenantSpec   `json:"spec,omitempty"`
	Status TenantStatus `json:"status,omitempty"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tenant `json:"items"`
}

// NamespaceName is the namespace of the hub that belongs to the Tenant.
func (t *Tenant) NamespaceName() string {
	if t.Spec.Namespace != "" {
		return t.Spec.Namespace
	}
	return t.Name
}

// Cluster is the UID of the cluster that the Tenant is bound to: a person's word before the first contact's. Empty: none yet.
func (t *Tenant) Cluster() string {
	if uid := t.Annotations[AnnotationClusterUID]; uid != "" {
		return uid
	}
	return t.Status.ClusterUID
}
