package v1beta1

// Conditions of a LoadBalancer. Each carries the generation that it speaks of.
const (
	// ConditionAccepted: the spec makes sense and its class takes it.
	ConditionAccepted = "Accepted"
	// ConditionAddressGranted: the ledger grants it an address.
	ConditionAddressGranted = "AddressGranted"
	// ConditionProgrammed: every live proxy that should serve it serves it as it stands in this generation.
	ConditionProgrammed = "Programmed"
	// ConditionReady: an address is granted and served; true with no member yet.
	ConditionReady = "Ready"
	// ConditionDegraded: it is served, but not all of it.
	ConditionDegraded = "Degraded"
	// ConditionTargetsFollowed: status.targets are its Machines as they are, and its TargetGroups follow them. Only where its targets are Machines.
	ConditionTargetsFollowed = "TargetsFollowed"
	// ConditionEndpointPublished: the Cluster whose control plane it is for has its endpoint. Only with role ControlPlane and a Cluster.
	ConditionEndpointPublished = "EndpointPublished"
	// ConditionMirrored: the hub has it as it stands in its management cluster, where an agent mirrors it. Only there.
	ConditionMirrored = "Mirrored"
	// ConditionExists, and the next two, are the provider object's own words, where one implements it: the load balancer is there outside.
	ConditionExists = "LBExists"
	// ConditionMatchesConfig: it is as it should be, and has the endpoint of spec.endpoint.
	ConditionMatchesConfig = "LBMatchesConfig"
	// ConditionDNSResolvable: its endpoint's host is an address, or a name that resolves.
	ConditionDNSResolvable = "DNSResolvable"
)

// Reasons in a LoadBalancer's conditions, in a port's error, in events and in metrics. Each comment says what the user does.
const (
	// ReasonAccepted and the other plain reasons ask nothing of anybody.
	ReasonAccepted       = "Accepted"
	ReasonAddressGranted = "AddressGranted"
	ReasonProgrammed     = "Programmed"
	ReasonReady          = "Ready"
	ReasonAsExpected     = "AsExpected"
	// ReasonManagedElsewhere: somebody else manages the load balancer; its address, and whether it serves, are his to say.
	ReasonManagedElsewhere = "ManagedElsewhere"
	// ReasonPending: wait; the message says for what.
	ReasonPending = "Pending"
	// ReasonInvalid: mend the field that the message names.
	ReasonInvalid = "Invalid"
	// ReasonNotSupported: nothing here honours that field or port; remove it, or choose a class that does.
	ReasonNotSupported = "NotSupported"
	// ReasonNoPorts: the LoadBalancer has no ports; add one.
	ReasonNoPorts = "NoPorts"
	// ReasonNoClass: no class is named and none is marked as default; name one, or mark one.
	ReasonNoClass = "NoClass"
	// ReasonClassNotFound: the class doesn't exist; name one that does, or have the hub's operator create it.
	ReasonClassNotFound = "ClassNotFound"
	// ReasonClassNotAllowed: the Tenant may not use the class; use one that it may, or ask the hub's operator.
	ReasonClassNotAllowed = "ClassNotAllowed"
	// ReasonPoolNotFound: an address pool doesn't exist; the hub's operator creates it or mends the class.
	ReasonPoolNotFound = "PoolNotFound"
	// ReasonPoolNotAllowed: the pool doesn't admit the namespace; the hub's operator mends spec.use.
	ReasonPoolNotAllowed = "PoolNotAllowed"
	// ReasonPoolExhausted: the pool has no free address; delete a LoadBalancer, or have the hub's operator extend the pool. It is granted as soon as one is free.
	ReasonPoolExhausted = "PoolExhausted"
	// ReasonFamilyNotInPool: no address pool that the LoadBalancer may use has addresses of a family that it asks for, or no host of the pool is served on one; leave the family out, or have the hub's operator add a range of it, or a host.
	ReasonFamilyNotInPool = "FamilyNotInPool"
	// ReasonQuotaExceeded: the Tenant holds as many as it may; delete one, or ask the hub's operator.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonAddressInUse: the wanted address is somebody else's; want another, or none.
	ReasonAddressInUse = "AddressInUse"
	// ReasonAddressNotInPool: the wanted address is in no pool that the LoadBalancer may use.
	ReasonAddressNotInPool = "AddressNotInPool"
	// ReasonAddressNotRequestable: the pool doesn't let tenants name addresses; leave the wish out.
	ReasonAddressNotRequestable = "AddressNotRequestable"
	// ReasonPortInUse: another LoadBalancer, or a program on the proxy's host, has that address, protocol and port.
	ReasonPortInUse = "PortInUse"
	// ReasonPortNotPermitted: the address pool doesn't give the port, or the proxy may not bind it; use one that the message names, or one above 1023, or give the proxy CAP_NET_BIND_SERVICE.
	ReasonPortNotPermitted = "PortNotPermitted"
	// ReasonAddressNotLocal: the address is not on the proxy's host; bind it there, or start the proxy with --bind-as, or with --address for pools of proxyHosts.
	ReasonAddressNotLocal = "AddressNotLocal"
	// ReasonPartlyServed: some ports are not served; status.ports says which, why, and what to do.
	ReasonPartlyServed = "PartlyServed"
	// ReasonNotServed: no port is served, or none on hosts of an address family that is needed; status.ports or the message says why, and what to do.
	ReasonNotServed = "NotServed"
	// ReasonNoTargets: no TargetGroup matches the selector; label one, or mend the selector. Clients are refused meanwhile.
	ReasonNoTargets = "NoTargets"
	// ReasonTargetNotAllowed: a target lies outside of Tenant.spec.targetCIDRs; it is left out until the hub's operator adds its range.
	ReasonTargetNotAllowed = "TargetNotAllowed"
	// ReasonNoProxies: no live proxy serves the class's proxy pool; start one.
	ReasonNoProxies = "NoProxies"
	// ReasonWaitingForProxies: proxies have not yet said that they serve it; wait, or see to those that the message names.
	ReasonWaitingForProxies = "WaitingForProxies"
	// ReasonSuspended: the Tenant is suspended; the hub's operator lifts that.
	ReasonSuspended = "Suspended"
	// ReasonNamespaceNotAdmitted: the namespace belongs to no Tenant and no pool names it.
	ReasonNamespaceNotAdmitted = "NamespaceNotAdmitted"
	// ReasonDeleting: it is being deleted and no longer served; create it anew if that was a mistake.
	ReasonDeleting = "Deleting"
	// ReasonHubChanged: proxies serve on what they had before the hub was restored or replaced, and nothing new is granted until
	// all of that is in the ledger again; wait, or see to the proxies that the message names.
	ReasonHubChanged = "HubChanged"
	// ReasonNoActiveTargets: no target takes new connections; see to those of the TargetGroups that are selected.
	ReasonNoActiveTargets = "NoActiveTargets"
	// ReasonWaitingForService: the hub's own implementation of Services has not served it yet; wait, or see the events of the Service in the hub.
	ReasonWaitingForService = "WaitingForService"
	// ReasonServiceRefused: the hub's API server refuses the Service that its class asks for; mend what the message names, or use another class.
	ReasonServiceRefused = "ServiceRefused"
	// ReasonNameTaken: another object has the name that would be the LoadBalancer's in the hub; rename one of the two.
	ReasonNameTaken = "NameTaken"
	// ReasonNotInstalled: the hub serves no Machines, or the manager may not read them; install Cluster API, and apply config/rbac/cluster-api. Of
	// an endpoint: the management cluster serves no Clusters or no ClusterEndpoints; install Cluster API, and apply config/crd.
	ReasonNotInstalled = "NotInstalled"
	// ReasonForbidden: the manager, or in a management cluster the agent, may not do what the message names; apply the file that it names.
	ReasonForbidden = "Forbidden"
	// ReasonWriteFailed: a Machine, a Node or a TargetGroup of it can't be written, and is tried again while all others are followed; see what the message names.
	ReasonWriteFailed = "WriteFailed"
	// ReasonStandsStill: targets are left as they are, for their Cluster is paused or moves, proxies serve on what they had, or none of their Machines or Nodes is there; wait, or see to what the message names. Of what is
	// mirrored: a manager leads in the management cluster; take it away.
	ReasonStandsStill = "StandsStill"
	// ReasonProviderNotInstalled: the hub doesn't serve the provider kind or its template's; install the provider, or mend the kind.
	ReasonProviderNotInstalled = "ProviderNotInstalled"
	// ReasonProviderForbidden: the manager may not read or write the provider kind; have its provider bring a ClusterRole with the label fairlead.dev/aggregate-to-manager.
	ReasonProviderForbidden = "ProviderForbidden"
	// ReasonProviderObjectNotFound: there is no object as spec.infrastructureRef names it in the LoadBalancer's namespace; create it there, or mend the reference.
	ReasonProviderObjectNotFound = "ProviderObjectNotFound"
	// ReasonProviderObjectOwned: the provider object is another's, or somebody made it; refer to one that is free, or rename one of the two.
	ReasonProviderObjectOwned = "ProviderObjectOwned"
	// ReasonProviderObjectInvalid: the API server refuses the provider object that the class's template makes; mend the template.
	ReasonProviderObjectInvalid = "ProviderObjectInvalid"
	// ReasonTemplateNotFound: the class's template isn't there; the hub's operator creates it in namespace fairlead-system.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonWaitingForProvider: the provider has not said yet that it is served, or not of the provider object as it is; wait, or see to the provider's program where the message says since when.
	ReasonWaitingForProvider = "WaitingForProvider"
	// ReasonProviderNotReady: the provider says that it can't serve it; see to what the message says.
	ReasonProviderNotReady = "ProviderNotReady"
	// ReasonProviderDegraded: it is served, and the provider says that something is wrong; see to what the message says.
	ReasonProviderDegraded = "ProviderDegraded"
	// ReasonEndpointDiffers: what is there outside has another endpoint than spec.endpoint; say that one there, or have it made anew.
	ReasonEndpointDiffers = "EndpointDiffers"
	// ReasonForeignMachines: the selector selects Machines of another Cluster, which get no traffic; mend the selector, or spec.clusterName.
	ReasonForeignMachines = "ForeignMachines"
	// ReasonPublished asks nothing of anybody: the Cluster and the LoadBalancer have one endpoint.
	ReasonPublished = "Published"
	// ReasonEndpointElsewhere: the Cluster and the LoadBalancer have one endpoint, an address that the LoadBalancer isn't served on; want it in spec.addresses, or see that something forwards from there.
	ReasonEndpointElsewhere = "EndpointElsewhere"
	// ReasonReleaseBlocked: its address can't be released yet; the message names the proxy and the fix.
	ReasonReleaseBlocked = "ReleaseBlocked"
)

const (
	// Finalizer holds a LoadBalancer with a grant until the ledger says that the grant is being released.
	Finalizer = "fairlead.dev/address"
	// MembersFinalizer holds a LoadBalancer of Machines or Nodes until none of them carries its hook or state any more, and its TargetGroups are gone.
	MembersFinalizer = "fairlead.dev/members"
	// MirrorFinalizer holds a LoadBalancer in a management cluster until the hub has let go of what mirrors it.
	MirrorFinalizer = "fairlead.dev/mirror"
	// HubAnnotation on a LoadBalancer in a management cluster is the UID of the hub in which proxies served it last.
	HubAnnotation = "fairlead.dev/hub-uid"
	// DisabledAnnotation takes a target out and keeps it out; presence counts.
	DisabledAnnotation = "loadbalancer.cluster.x-k8s.io/disabled"
	// ClassAnnotation on a Cluster has a LoadBalancer of that class made for its control plane.
	ClassAnnotation = "loadbalancer.cluster.x-k8s.io/class"
)

// Annotations of Cluster API that say that nobody is to change an object, and that one is deleted from this hub alone, because
// another one has it now. Presence counts.
const (
	PausedAnnotation = "cluster.x-k8s.io/paused"
	MoveAnnotation   = "clusterctl.cluster.x-k8s.io/delete-for-move"
)
