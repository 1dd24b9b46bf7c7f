// Package v1alpha1 holds the kinds of the group fairlead.dev: what traffic can
// go to (TargetGroup), with which technology (LoadBalancerClass), under which
// addresses (AddressPool, Address), for whom (Tenant), and what the proxies
// say of it (Proxy, ProxyReport).
//
// +kubebuilder:object:generate=true
// +groupName=fairlead.dev
package v1alpha1
