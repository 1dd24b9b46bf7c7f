package contract

import (
	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spec is the part of a provider kind's spec that all provider kinds have.
type Spec struct {
	// Host and port that clients use. What the LoadBalancer says goes before it, and is written here before anything is made
	// outside; where neither says anything, the provider chooses, and that is written here.
	// +optional
	// +nullable
	Endpoint *clusterv1.Endpoint `json:"endpoint,omitempty"`
	// The load balancer outside, by the name that its technology gives it. Set it to adopt one that is there; it is left
	// there when this object is deleted. Else the provider writes it as soon as it has made one.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id,omitempty"`
	// Credentials to make it with. Default: those of the Cluster's infrastructure, where that is of the provider's own family; else the provider's own.
	// +optional
	CredentialRef *CredentialReference `json:"credentialRef,omitempty"`
}

// CredentialReference names an object with credentials: a Secret of the same namespace, or a kind that the provider knows.
type CredentialReference struct {
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup string `json:"apiGroup,omitempty"`
	// +kubebuilder:default=Secret
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Status is the part of a provider kind's status that all provider kinds have.
type Status struct {
	// Where the load balancer outside listens, which may be what the name in spec.endpoint resolves to.
	// +optional
	Endpoint *clusterv1.Endpoint `json:"endpoint,omitempty"`
	// Kind and group of the targets, such as Machine.cluster.x-k8s.io.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	TargetKind string `json:"targetKind,omitempty"`
	// The LoadBalancer's selector, as a label selector string.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	TargetSelector string `json:"targetSelector,omitempty"`
	// The targets, and what is still outside of those that were, with their states.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	Targets []clusterv1.TargetStatus `json:"targets,omitempty"`
	// Names of the active targets.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=atomic
	ActiveTargets []string `json:"activeTargets,omitempty"`
	// What the rest of this status was made from. That a target is removed counts only where its TargetGroup was seen as it is.
	// +optional
	Observed *Observed `json:"observed,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Observed are the objects that a provider object follows, as they were when they were followed last.
type Observed struct {
	// The TargetGroups that it selects.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	TargetGroups []ObservedTargetGroup `json:"targetGroups,omitempty"`
}

// ObservedTargetGroup is one TargetGroup of the same namespace, as its targets were followed last.
type ObservedTargetGroup struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
}
