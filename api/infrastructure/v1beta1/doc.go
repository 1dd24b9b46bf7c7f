// Package v1beta1 holds the kinds that Fairlead serves in the group
// infrastructure.cluster.x-k8s.io: UnmanagedCluster, infrastructure of Cluster
// API's contract v1beta2 that nobody manages, and its template for ClusterClasses.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
