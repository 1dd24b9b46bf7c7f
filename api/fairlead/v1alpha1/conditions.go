package v1alpha1

// Conditions of the kinds in this package.
const (
	// ConditionReady of Tenant, AddressPool and Proxy: it can be used.
	ConditionReady = "Ready"
	// ConditionAccepted of LoadBalancerClass and TargetGroup: the spec makes sense.
	ConditionAccepted = "Accepted"
	// ConditionHealthy of TargetGroup: no proxy finds a serving target unhealthy.
	ConditionHealthy = "Healthy"
	// ConditionAgentConnected of Tenant: its agent renews its Lease.
	ConditionAgentConnected = "AgentConnected"
	// ConditionDeletionHeld of LoadBalancerClass, AddressPool and Tenant: it is to be deleted, and is in use; until that ends all goes on as before.
	ConditionDeletionHeld = "DeletionHeld"
	// ConditionHubChanged of Proxy: the hub may not be the one that it was; the proxy is frozen.
	ConditionHubChanged = "HubChanged"
)

// Reasons beside those of package clusterv1. Each comment says what the user does.
const (
	// ReasonNamespaceTaken: the Tenant's namespace exists and is not its own; choose another, or label it fairlead.dev/tenant.
	ReasonNamespaceTaken = "NamespaceTaken"
	// ReasonRangesOverlap: the pool's ranges overlap those of an older pool; mend one of the two. Nothing new is granted from the overlap.
	ReasonRangesOverlap = "RangesOverlap"
	// ReasonInUse: it is in use, so its deletion waits; the message names what holds it, and how to go on.
	ReasonInUse = "InUse"
	// ReasonAgentNeverSeen: no agent has come yet; start one with the Tenant's kubeconfig.
	ReasonAgentNeverSeen = "AgentNeverSeen"
	// ReasonAgentSilent: the agent has not renewed its Lease; see to the agent. What it made is served on.
	ReasonAgentSilent = "AgentSilent"
	// ReasonAgentConnected: the agent is at work.
	ReasonAgentConnected = "AgentConnected"
	// ReasonOtherCluster: another cluster's agent uses this Tenant's identity; give it a Tenant of its own.
	ReasonOtherCluster = "OtherCluster"
	// ReasonMembersUnhealthy: some serving targets fail their check; see to those that status.targets names, or mend the check.
	ReasonMembersUnhealthy = "MembersUnhealthy"
	// ReasonCheckedByPort: no node has a kube-proxy whose health could be asked, so the nodePort of each TCP port is checked by a connection; nothing to do, unless kube-proxy should run there.
	ReasonCheckedByPort = "CheckedByPort"
	// ReasonHubRestored: the hub is an older copy of itself; the proxy serves on what it had. Nothing to do, unless the message names something that is missing.
	ReasonHubRestored = "HubRestored"
	// ReasonHubReplaced: another hub answers at the hub's address; the proxy serves on what it had. Point it back, or install in this hub what the message names.
	ReasonHubReplaced = "HubReplaced"
	// ReasonProxiesDisagree: proxies serve one address for different LoadBalancers since the hub changed; fence the one that is wrong.
	ReasonProxiesDisagree = "ProxiesDisagree"
	// ReasonRestoring: the pool grants nothing dynamically and frees nothing; set spec.restoring to false once all proxies and agents are in.
	ReasonRestoring = "Restoring"
	// ReasonHolderMissing: an Address is granted to a LoadBalancer that the hub doesn't have; it is kept for a day.
	// Create the LoadBalancer again, or set the Address's annotation fairlead.dev/held-until to an earlier time.
	ReasonHolderMissing = "HolderMissing"
)
