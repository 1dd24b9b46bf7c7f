// Package provider is for whoever wants Fairlead to manage a technology that it doesn't know: a cloud's load balancer, an
// appliance, an API of one's own. An author writes a kind that embeds package contract, and a Provider of four methods:
//
//	LoadBalancer ─┐                                              ┌─ Describe ─┐
//	TargetGroups ─┼─▶ gate ─▶ what is wanted, whom to send to ─▶─┼─ Ensure    ├─▶ the load balancer outside
//	Cluster      ─┘     │                                        ├─ SetMembers│        │
//	                    ▼                                        └─ Delete   ─┘        │
//	     provider object: spec.endpoint, spec.id, status ◀────── states, conditions ◀──┘
//
// Setup adds the controller that does the rest, once for all providers: nothing is made outside before the endpoint is known
// and pushed down; members drain, and are called removed only once that is seen; strangers among them are removed; what
// was adopted is never deleted; a pause, a move to another hub, and an incomplete view hold everything as it is; an error
// is retried ever more slowly, or not at all; a provider that panics, or doesn't answer, harms one object only.
//
// It reads LoadBalancers, TargetGroups, Tenants and Clusters, and writes none of them: only objects of the provider's own kind.
// Package providertest has the suite that each provider is to pass; docs/providers.md is the guideline.
package provider
