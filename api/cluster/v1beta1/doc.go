// Package v1beta1 holds the kinds that Fairlead serves in the group
// cluster.x-k8s.io: LoadBalancer, as the Cluster API load balancer proposal
// names it, and ClusterEndpoint, as that for flexible managed endpoints does. A
// LoadBalancer's schema is served as v1alpha4 too, without conversion, so
// that the proposal's printed manifests apply.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.x-k8s.io
package v1beta1
