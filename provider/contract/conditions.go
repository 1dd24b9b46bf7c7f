package contract

// Conditions of a provider kind.
const (
	// ConditionExists: the load balancer is there outside.
	ConditionExists = "LBExists"
	// ConditionMatchesConfig: it is as it should be.
	ConditionMatchesConfig = "LBMatchesConfig"
	// ConditionDNSResolvable: the host of spec.endpoint is an address, or a name that resolves.
	ConditionDNSResolvable = "DNSResolvable"
	// ConditionReady: it is there and its endpoint is known, so a control plane may be built behind it; true with no member yet.
	ConditionReady = "Ready"
	// ConditionDegraded: something is wrong that the reason names; what is outside goes on as it is.
	ConditionDegraded = "Degraded"
	// ConditionPaused: nothing is done outside.
	ConditionPaused = "Paused"
)

// Reasons in these conditions, and in events. Each comment says what the user does.
const (
	// ReasonAsExpected asks nothing of anybody.
	ReasonAsExpected = "AsExpected"
	// ReasonPending: wait; the message says for what.
	ReasonPending = "Pending"
	// ReasonPaused: end the pause that the message names, once it is over.
	ReasonPaused = "Paused"
	// ReasonNoLoadBalancer: no LoadBalancer of the namespace refers to this object; have one do so in spec.infrastructureRef.
	ReasonNoLoadBalancer = "NoLoadBalancer"
	// ReasonSeveralLoadBalancers: more than one refers to it; keep one.
	ReasonSeveralLoadBalancers = "SeveralLoadBalancers"
	// ReasonEndpointNotPushed: the Cluster has an endpoint that its LoadBalancer doesn't say yet; wait, or write it there.
	ReasonEndpointNotPushed = "EndpointNotPushed"
	// ReasonEndpointConflict: the Cluster and its LoadBalancer name different endpoints; make them the same.
	ReasonEndpointConflict = "EndpointConflict"
	// ReasonEndpointDiffers: the LoadBalancer names another endpoint than the one that was made; name that one, or make it anew.
	ReasonEndpointDiffers = "EndpointDiffers"
	// ReasonNotFound: what spec.id adopts isn't there; mend the ID, or leave it out to have one made.
	ReasonNotFound = "NotFound"
	// ReasonIDInUse: an older object has the same spec.id; leave it to that one.
	ReasonIDInUse = "IDInUse"
	// ReasonIDChanged: spec.id isn't what was made for this object; put that back.
	ReasonIDChanged = "IDChanged"
	// ReasonNotSupported: the provider can't do what a field asks; remove the field, or use another provider.
	ReasonNotSupported = "NotSupported"
	// ReasonRoleUnknown: the Cluster's control plane object, which may name the LoadBalancer as its own, can't be read; give the provider the
	// right that the message names, or set the LoadBalancer's spec.role.
	ReasonRoleUnknown = "RoleUnknown"
	// ReasonCredentialsNotFound: the credentials aren't there, or it can't be seen which are meant; the message says what to create, permit or mend.
	ReasonCredentialsNotFound = "CredentialsNotFound"
	// ReasonDrift: somebody changed the load balancer outside, and it can't be put right; the message says what.
	ReasonDrift = "Drift"
	// ReasonProviderError: the provider failed, and tries again.
	ReasonProviderError = "ProviderError"
	// ReasonProviderRefused: the provider won't try again until something changes; the message says what is wrong.
	ReasonProviderRefused = "ProviderRefused"
	// ReasonProviderPanicked: the provider has a bug, and tries again; report it with the log.
	ReasonProviderPanicked = "ProviderPanicked"
	// ReasonProviderSilent: the provider hasn't answered in time, and is waited for; see to the technology that it speaks to.
	ReasonProviderSilent = "ProviderSilent"
	// ReasonNoTargetGroups: no TargetGroup is selected, so members stay as they are; mend the selector, or create a group.
	ReasonNoTargetGroups = "NoTargetGroups"
	// ReasonNoActiveTargets: no target takes traffic; see to those in status.targets.
	ReasonNoActiveTargets = "NoActiveTargets"
	// ReasonNotATarget: it is outside and no target, and is removed; add targets in the hub, not outside.
	ReasonNotATarget = "NotATarget"
	// ReasonNoAddress: the target has no address that may be used; wait, or give it one.
	ReasonNoAddress = "NoAddress"
	// ReasonTargetNotAllowed: the Tenant's targetCIDRs don't hold its address; the hub's operator adds its range.
	ReasonTargetNotAllowed = "TargetNotAllowed"
	// ReasonQuotaExceeded: the Tenant may not have so many targets; remove others, or have the hub's operator raise its spec.quota.targets.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonAddressShared: another target has the same address, and serves; remove one.
	ReasonAddressShared = "AddressShared"
	// ReasonSettling: new connections have stopped; it is waited until that holds everywhere, and open ones have ended.
	ReasonSettling = "Settling"
	// ReasonNotResolvable: the name doesn't resolve from where the provider runs; create the record.
	ReasonNotResolvable = "NotResolvable"
	// ReasonDeleting: it is being deleted outside; wait.
	ReasonDeleting = "Deleting"
	// ReasonKept: it was adopted, so it was left outside; delete it there if it isn't needed.
	ReasonKept = "Kept"
	// ReasonMade, ReasonMadeAgain and ReasonDeleted are of events, and ask nothing of anybody.
	ReasonMade      = "Made"
	ReasonMadeAgain = "MadeAgain"
	ReasonDeleted   = "Deleted"
)

// States of a target, as status.targets has them.
const (
	// StateWaiting: it has no address yet that may be used.
	StateWaiting = "waiting"
	// StateAdding: it is on its way in.
	StateAdding = "adding"
	// StateActive: it takes new connections.
	StateActive = "active"
	// StateUnhealthy: it is in, and fails its check.
	StateUnhealthy = "unhealthy"
	// StateDisabling: it is asked out by the annotation disabled, and may get new connections.
	StateDisabling = "disabling"
	// StateDisabled: it gets none any more.
	StateDisabled = "disabled"
	// StateRemoving: it is to leave, and may get new connections, or has open ones.
	StateRemoving = "removing"
	// StateRemoved: it is out, and safe to delete.
	StateRemoved = "removed"
)

const (
	// Finalizer holds a provider object until its load balancer is gone outside.
	Finalizer = "provider.fairlead.dev/outside"
	// MadeAnnotation is the ID of the load balancer that was made for the object. Without it, what spec.id names was adopted.
	MadeAnnotation = "provider.fairlead.dev/made"
	// CredentialsAnnotation is the reference to the InfraCluster's credentials that were used last, as JSON. It counts where the InfraCluster
	// is gone, so that what was made is still managed, and deleted, in the account that it is in.
	CredentialsAnnotation = "provider.fairlead.dev/credentials"
)
