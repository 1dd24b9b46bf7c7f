package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProxyHostsSource takes the own addresses of the proxies' hosts, all of them together, shared by port.
type ProxyHostsSource struct {
	// Proxies whose spec.pool is this one, and that name their host's addresses in spec.addresses. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="pool must have lower-case letters, digits, hyphens and dots, for Addresses are named after it: rename the pool of proxies"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="pool is immutable: create another AddressPool"
	Pool string `json:"pool"`
	// Ports that may be granted, as first-last. A port that is granted and then left out is kept.
	// +kubebuilder:validation:MaxLength=11
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}-[0-9]{1,5}$') && 1 <= int(self.split('-')[0]) && int(self.split('-')[0]) <= int(self.split('-')[1]) && int(self.split('-')[1]) <= 65535",message="ports must be a range within 1 to 65535, such as 20000-29999"
	Ports string `json:"ports"`
}

// Granularity is what one grant of a pool holds.
//
// +kubebuilder:validation:Enum=Address;Port
type Granularity string

const (
	// GranularityAddress: an address, with the ports of all who share it.
	GranularityAddress Granularity = "Address"
	// GranularityPort: one port of an address. All whom the pool admits share its addresses so.
	GranularityPort Granularity = "Port"
)

// Share says who may hold an address together, on different ports.
//
// +kubebuilder:validation:Enum=None;Namespace;Any
type Share string

const (
	ShareNone      Share = "None"
	ShareNamespace Share = "Namespace"
	ShareAny       Share = "Any"
)

// OnSilentProxy says what a silent proxy does to an address that is being released.
//
// +kubebuilder:validation:Enum=Hold;Release
type OnSilentProxy string

// PoolUse says who may use a pool.
type PoolUse struct {
	// Tenants, by label. Neither this nor namespaceSelector set: all Tenants.
	// +optional
	Tenants *metav1.LabelSelector `json:"tenants,omitempty"`
	// Namespaces, by label; the only way for namespaces of no Tenant.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// AddressPoolSpec says where addresses come from and who may use them.
//
// +kubebuilder:validation:XValidation:rule="has(self.ranges) != has(self.proxyHosts)",message="set exactly one of ranges and proxyHosts"
// +kubebuilder:validation:XValidation:rule="has(self.ranges) == has(oldSelf.ranges)",message="ranges and proxyHosts can't be exchanged: create another pool"
// +kubebuilder:validation:XValidation:rule="!has(self.proxyHosts) || !has(self.granularity) || self.granularity == 'Port'",message="proxyHosts are granted by port: leave granularity out, or set Port"
// +kubebuilder:validation:XValidation:rule="!has(self.share) || self.share == 'Any' || !has(self.proxyHosts) && (!has(self.granularity) || self.granularity == 'Address')",message="ports are granted to all whom use admits: leave share out, or set Any"
// +kubebuilder:validation:XValidation:rule="has(self.proxyHosts) || (has(self.granularity) ? self.granularity : 'Address') == (has(oldSelf.granularity) ? oldSelf.granularity : 'Address')",message="granularity is immutable: create another pool"
type AddressPoolSpec struct {
	// CIDRs, or ranges as first-last. A CIDR's network and broadcast addresses are not left out.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=91
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r) || (r.split('-').size() == 2 && isIP(r.split('-')[0]) && isIP(r.split('-')[1]) && ip(r.split('-')[0]).family() == ip(r.split('-')[1]).family()))",message="each of ranges must be a CIDR, such as 192.0.2.0/26, or two addresses of one family, such as 192.0.2.128-192.0.2.140"
	// +listType=atomic
	Ranges []string `json:"ranges,omitempty"`
	// +optional
	ProxyHosts *ProxyHostsSource `json:"proxyHosts,omitempty"`
	// What one grant holds. Default: Address; Port with proxyHosts. Immutable.
	// +optional
	Granularity Granularity `json:"granularity,omitempty"`
	// +optional
	Use *PoolUse `json:"use,omitempty"`
	// Who may hold one address together. Default: Namespace; Any where ports are granted.
	// +optional
	Share Share `json:"share,omitempty"`
	// Addresses that one Tenant may hold; ports, where these are granted. Default: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	PerTenant *int32 `json:"perTenant,omitempty"`
	// May a tenant name an address? Default: false.
	// +optional
	Requestable bool `json:"requestable,omitempty"`
	// Rest of an address between its proven release and its next grant. Default: 0s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="quarantine must be a duration between 0s and 720h, such as 1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	Quarantine *metav1.Duration `json:"quarantine,omitempty"`
	// Default: Hold.
	// +optional
	OnSilentProxy OnSilentProxy `json:"onSilentProxy,omitempty"`
	// Stops new dynamic grants while a hub is rebuilt.
	// +optional
	Restoring bool `json:"restoring,omitempty"`
}

// AddressPoolStatus counts a pool's addresses; where ports are granted, those: free are the numbers that nobody holds with
// any protocol, on each address of ranges, on all hosts at once.
type AddressPoolStatus struct {
	// +optional
	Free int64 `json:"free"`
	// +optional
	Granted int64 `json:"granted"`
	// +optional
	Releasing int64 `json:"releasing"`
	// Granted ones whose LoadBalancer the hub doesn't have; each is kept until its annotation fairlead.dev/held-until.
	// +optional
	Held int32 `json:"held,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressPool is where addresses come from.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=addresspools,scope=Cluster,shortName=pool,categories=fairlead
// +kubebuilder:printcolumn:name="Ranges",type=string,JSONPath=`.spec.ranges`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.free`
// +kubebuilder:printcolumn:name="Granted",type=integer,JSONPath=`.status.granted`
// +kubebuilder:printcolumn:name="Releasing",type=integer,JSONPath=`.status.releasing`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AddressPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AddressPoolSpec `json:"spec"`
	// +optional
	Status AddressPoolStatus `json:"status,omitempty"`
}

// AddressPoolList is a list of AddressPools.
//
// +kubebuilder:object:root=true
type AddressPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AddressPool `json:"items"`
}

// AddressPhase is where an address stands between its grant and its next one.
//
// +kubebuilder:validation:Enum=Granted;Releasing;Moved
type AddressPhase string

const (
	// AddressGranted: the holders' ports are served on it.
	AddressGranted AddressPhase = "Granted"
	// AddressReleasing: nobody may serve it; it returns to the same holder at once, to others when every proxy reported it gone.
	AddressReleasing AddressPhase = "Releasing"
	// AddressMoved: its holder moved to another hub; it is never granted again until a person deletes it.
	AddressMoved AddressPhase = "Moved"
)

// Holder is a LoadBalancer that holds an address.
type Holder struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Protocol/port, such as TCP/80.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:Pattern=`^(TCP|UDP|SCTP)/[0-9]{1,5}$`
	// +kubebuilder:validation:items:MaxLength=10
	// +listType=atomic
	Ports []string `json:"ports,omitempty"`
}

// AddressSpec is one line of the ledger.
type AddressSpec struct {
	// 0.0.0.0 and :: stand for all addresses of that family of the proxies' hosts.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="address must be an IP address"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="address is immutable"
	Address string `json:"address"`
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// Proxies of this pool may serve the address.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ProxyPool string `json:"proxyPool,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=name
	Holders []Holder     `json:"holders,omitempty"`
	Phase   AddressPhase `json:"phase"`
	// When phase became Releasing, by the manager's clock; for people to read.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`
}

// Address is the ledger: this address belongs to those LoadBalancers. It is
// named after what is held, so that the API server makes grants unique. Only
// the manager writes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=addresses,scope=Cluster,shortName=addr,categories=fairlead
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.spec.phase`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.holders[0].namespace`
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.spec.holders[0].name`
// +kubebuilder:printcolumn:name="Also",type=string,JSONPath=`.spec.holders[1].name`
// +kubebuilder:printcolumn:name="Holders",type=string,JSONPath=`.spec.holders`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Address struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec AddressSpec `json:"spec"`
}

// AddressList is a list of Addresses.
//
// +kubebuilder:object:root=true
type AddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Address `json:"items"`
}
