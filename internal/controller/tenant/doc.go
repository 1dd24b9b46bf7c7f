// Package tenant turns a Tenant into its namespace of the hub, its agent's
// identity and that identity's rights, and takes all of it back when the Tenant
// goes: LoadBalancers first, then the namespace once every address is free. A
// Tenant that is to be deleted while LoadBalancers of it are served is held,
// and says so, until they are gone or it is suspended.
//
// It also says what the Tenant uses, and whether its agent is at work: judged by
// renewals of the agent's Lease that this manager saw itself.
package tenant
