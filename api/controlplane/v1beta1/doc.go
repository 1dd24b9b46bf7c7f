// Package v1beta1 holds the kind that Fairlead serves in the group
// controlplane.cluster.x-k8s.io: ExternalControlPlane, a control plane of Cluster
// API's contract v1beta2 that somebody else runs.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta1
