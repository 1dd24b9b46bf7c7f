// Package controlplane holds FKSControlPlane and its template: control planes that the Foo Kubernetes Service runs.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
// +versionName=v1beta1
package controlplane
