// Package contract holds what every provider kind has in its spec and status: a kind of infrastructure.cluster.x-k8s.io that
// stands for one load balancer outside, made by a controller of its own. A kind embeds Spec and Status inline, and may
// have fields of its own beside them. It is the contract of the load balancer proposal for Cluster API.
//
// +kubebuilder:object:generate=true
package contract
