// Package epoch tells Tenants when the hub has changed, and proxies when a Tenant's agent has written all again:
//
//	proxies that say HubChanged ─▶ proof.PresentEpoch ─▶ Tenant.status.hubEpoch ─▶ agent
//	agent's Lease ─▶ proof.AgentEpoch ─▶ Tenant.status.agentEpoch ─▶ proxies follow the Tenant's namespace
//
// A Tenant whose agent doesn't come is given up waiting for after a day, or when its annotation fairlead.dev/held-until
// says so: then proxies follow what the hub holds. Each change of the hub begins that day anew; that a frozen proxy restarts,
// which raises the epoch too, doesn't where the agent has been silent since: waits tells the two apart.
package epoch
