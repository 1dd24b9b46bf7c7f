// Package api holds FooLoadBalancer, a provider kind: the contract's fields, and one of its own.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
// +versionName=v1beta1
package api
