// Package providerkind has LoadBalancers served by provider kinds: objects of infrastructure.cluster.x-k8s.io, each of which stands for
// one load balancer outside, that a program of its own sees to (package provider is for its authors).
//
//	class with infrastructureTemplate ─▶ object of the LoadBalancer's name, made from the template ─┐
//	spec.infrastructureRef ────────────▶ object that a person made, and that nobody else has ───────┴─▶ owned by the LoadBalancer
//	LoadBalancer.spec.endpoint ─▶ object.spec.endpoint, until something is outside; then the object's ─▶ LoadBalancer.spec.endpoint
//	object.status ─▶ State
//
// Which object a LoadBalancer has is noted on the LoadBalancer before anything is made or adopted: whoever stops between two writes, or
// changes what the LoadBalancer or its class says, leaves nothing behind that nobody knows of. An object that it has no longer is
// deleted where it was made from a template, and left to people where they made it: what is outside goes on.
//
// The kinds are the hub's to install, at any time, as are the rights to them. So one is watched from when the first LoadBalancer needs
// it and it can be read; until then its LoadBalancers say what is missing, and are looked at again every 15 s. Objects are unstructured:
// nothing is known of a kind but the contract.
package providerkind
