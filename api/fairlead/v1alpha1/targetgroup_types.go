package v1alpha1

import (
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TargetState is what the writer of a TargetGroup wants of a target.
//
// +kubebuilder:validation:Enum=Serving;Draining
type TargetState string

const (
	// TargetServing takes new connections while it is healthy.
	TargetServing TargetState = "Serving"
	// TargetDraining takes no new connection; open ones run on, at most for drainFor.
	TargetDraining TargetState = "Draining"
)

// Target is a host that traffic can go to. It has no port: each LoadBalancer brings its own.
type Target struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID of what the target stands for; a reborn name has a new one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// IP addresses; the first of each family is used. Or a DNS name, for a load balancer of a cloud: where there is no
	// IP address the first name is looked up, and all its addresses are used.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Share of new connections, against other targets. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	Weight *int32 `json:"weight,omitempty"`
	// What the target's cluster says of its readiness, for outputs that check nothing themselves. Default: true.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// Default: Serving.
	// +optional
	State TargetState `json:"state,omitempty"`
	// Draining: how long open connections may run on, counted by each proxy; 0s: without bound. Default: the LoadBalancer's, else the class's drainTimeout.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="drainFor must be a duration between 0s and 720h, such as 5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	DrainFor *metav1.Duration `json:"drainFor,omitempty"`
}

// TargetGroupSpec is a set of targets.
type TargetGroupSpec struct {
	// Default check for LoadBalancers that have none of their own.
	// +optional
	HealthCheck *clusterv1.HealthCheck `json:"healthCheck,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Targets []Target `json:"targets,omitempty"`
}

// MemberStatus is the state of one target that is not plainly active.
type MemberStatus struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// waiting, adding, unhealthy, draining or drained.
	// +kubebuilder:validation:MaxLength=63
	State string `json:"state"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Sum over the proxies, while draining.
	// +optional
	OpenConnections int64 `json:"openConnections,omitempty"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// TargetGroupStatus holds the members' states once for all LoadBalancers.
type TargetGroupStatus struct {
	// Targets that are not plainly active.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	Targets []MemberStatus `json:"targets,omitempty"`
	// Active and all targets, as 2/3.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Members string `json:"members,omitempty"`
	// Targets that the Tenant's quota.targets leaves in, as UID/addresses. When there come to be more than it allows, these are served on.
	// Only in a Tenant's namespace.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=400
	// +listType=set
	WithinQuota []string `json:"withinQuota,omitempty"`
	// How many of the targets are left out, for the Tenant may not have so many.
	// +optional
	BeyondQuota int32 `json:"beyondQuota,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetGroup holds addresses that traffic can go to, each serving or draining.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=targetgroups,shortName=tg,categories=fairlead
// +kubebuilder:printcolumn:name="Members",type=string,JSONPath=`.status.members`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TargetGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TargetGroupSpec   `json:"spec,omitempty"`
	Status TargetGroupStatus `json:"status,omitempty"`
}

// TargetGroupList is a list of TargetGroups.
//
// +kubebuilder:object:root=true
type TargetGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TargetGroup `json:"items"`
}

// Drains says whether target i gets no new connection: because it says so
// itself, or because its whole group is disabled by annotation or being deleted.
func (g *TargetGroup) Drains(i int) bool {
	_, disabled := g.Annotations[clusterv1.DisabledAnnotation]
	return disabled || g.DeletionTimestamp != nil || g.Spec.Targets[i].State == TargetDraining
}

// CheckedByPort is why an agent has its Nodes checked by a connection to the port that traffic goes to; "": it hasn't.
func (g *TargetGroup) CheckedByPort() string {
	if c := g.Spec.HealthCheck; c == nil || c.Type != clusterv1.HealthCheckTCP || c.Port != 0 {
		return ""
	}
	return g.Annotations[AnnotationCheckedByPort]
}

// ServedAddress is the one of a target's addresses that proxies report it by, whatever else it has: its first IPv4
// address, however it is written; else its first IPv6 address; else its first name; "" if it has none.
func (t *Target) ServedAddress() string {
	six := ""
	for _, a := range t.Addresses {
		ip, err := netip.ParseAddr(a)
		switch {
		case err != nil || ip.Zone() != "":
		case ip.Unmap().Is4():
			return ip.Unmap().String()
		case six == "":
			six = ip.String()
		}
	}
	if six != "" || len(t.Addresses) == 0 {
		return six
	}
	return t.Addresses[0]
}
