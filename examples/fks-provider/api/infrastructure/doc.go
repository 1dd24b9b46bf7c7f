// Package infrastructure holds FKSCluster and its template: what of a Cluster's infrastructure the Foo Kubernetes Service doesn't bring.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
// +versionName=v1beta1
package infrastructure
