package v1alpha1

// SystemNamespace of the hub holds the Leases of proxies and managers.
const SystemNamespace = "fairlead-system"

// Identities of proxies. The hub lets an identity write the Proxy, the
// ProxyReports and the Lease of its own name only.
const (
	// ProxyNamespace of the hub holds a ServiceAccount for each proxy, of the proxy's name.
	ProxyNamespace = "fairlead-proxies"
	// ProxyGroup is that of proxies without a ServiceAccount, whose user name is ProxyUserPrefix and the proxy's name.
	ProxyGroup      = "fairlead:proxies"
	ProxyUserPrefix = "fairlead:proxy:"
)

// Labels.
const (
	// LabelTargets tells an agent's TargetGroups apart by what they mirror; value "nodes" for the cluster's Nodes,
	// else the name of the LoadBalancer that sends to another load balancer's address.
	LabelTargets = "fairlead.dev/targets"
	// LabelFor names the LoadBalancer that a generated TargetGroup, or the hub's Service or EndpointSlice, was made for.
	LabelFor = "fairlead.dev/for"
	// LabelGeneratedFrom marks a TargetGroup that the manager made, by the kind that its targets are of.
	LabelGeneratedFrom = "fairlead.dev/generated-from"
	// LabelCluster names the Cluster whose Machines a TargetGroup was made from.
	LabelCluster = "fairlead.dev/cluster"
	// LabelTenant marks what the manager made for a Tenant, by the Tenant's name.
	LabelTenant = "fairlead.dev/tenant"
)

// TargetsNodes is LabelTargets' value for the Nodes of a tenant cluster.
const TargetsNodes = "nodes"

// Annotations.
const (
	// AnnotationOrigin names what an agent made an object from, as Service/namespace/name, or LoadBalancer/namespace/name.
	AnnotationOrigin = "fairlead.dev/origin"
	// AnnotationOriginUID is the UID of the same object.
	AnnotationOriginUID = "fairlead.dev/origin-uid"
	// AnnotationImplementedBy on a LoadBalancer is the provider object that the manager gave it, or has it adopt, as KIND.GROUP/NAME.
	AnnotationImplementedBy = "fairlead.dev/implemented-by"
	// AnnotationTemplate on a provider object names the template that the manager made it from. Without it a person made it.
	AnnotationTemplate = "fairlead.dev/made-from-template"
	// AnnotationDefaultClass marks the default LoadBalancerClass with the value "true".
	AnnotationDefaultClass = "fairlead.dev/is-default-class"
	// AnnotationClass on a tenant's Service chooses its LoadBalancerClass where spec.loadBalancerClass is not set.
	AnnotationClass = "fairlead.dev/class"
	// AnnotationAddresses on a tenant's Service names wanted addresses, separated by commas.
	AnnotationAddresses = "fairlead.dev/addresses"
	// AnnotationAddressPool on a tenant's Service chooses AddressPools, separated by commas.
	AnnotationAddressPool = "fairlead.dev/address-pool"
	// AnnotationProxyProtocol on a tenant's Service is the PROXY protocol version for its targets, V1 or V2.
	AnnotationProxyProtocol = "fairlead.dev/proxy-protocol"
	// AnnotationDrainTimeout on a tenant's Service is its drain timeout.
	AnnotationDrainTimeout = "fairlead.dev/drain-timeout"
	// AnnotationExposeNodePort on a tenant's Service of type NodePort asks for a LoadBalancer: "true", or what
	// spec.loadBalancerClass would be, which that type may not have.
	AnnotationExposeNodePort = "fairlead.dev/expose-nodeport"
	// AnnotationExposeLoadBalancer on a tenant's Service that another load balancer serves asks for a LoadBalancer that sends there,
	// with the same values; "false" keeps it out of what an agent exposes.
	AnnotationExposeLoadBalancer = "fairlead.dev/expose-loadbalancer"
	// AnnotationPublished on a tenant's Service is where the hub serves it, addresses with commas between, where status.loadBalancer
	// may not say so: it may have none, or it is another's.
	AnnotationPublished = "fairlead.dev/published-addresses"
	// AnnotationThrough on a proxy's Lease repeats Proxy.status.through, as JSON, at each renewal.
	AnnotationThrough = "fairlead.dev/through"
	// AnnotationSeq beside it is the Proxy.status.seq that belongs to it: who hasn't seen that status knows nothing of
	// its exceptions, and must not believe what the Lease repeats.
	AnnotationSeq = "fairlead.dev/seq"
	// AnnotationBoot on a proxy's Lease is the boot that renews it.
	AnnotationBoot = "fairlead.dev/boot"
	// AnnotationAsked on a Proxy is a manager's question, a word that is new each time: it has not heard of this proxy since it
	// started, and the proxy is to renew its Lease at once.
	AnnotationAsked = "fairlead.dev/asked"
	// AnnotationLoadBalancer on a tenant's Service names its LoadBalancer in the hub. It comes and goes with the finalizer.
	AnnotationLoadBalancer = "fairlead.dev/loadbalancer"
	// AnnotationVersion on the Lease of an agent, or of the leading manager, is its version.
	AnnotationVersion = "fairlead.dev/version"
	// AnnotationClusterUID on an agent's Lease is the UID of its cluster's kube-system namespace. On a Tenant a person
	// writes there which cluster it is bound to from now on, whatever its status says.
	AnnotationClusterUID = "fairlead.dev/cluster-uid"
	// AnnotationRefused on an agent's Lease is the word of an agent whose cluster the Tenant is not bound to, and all that
	// it writes: its cluster's UID, a blank, and when it last asked.
	AnnotationRefused = "fairlead.dev/refused"
	// AnnotationEpoch on an agent's Lease is the hub's epoch in which it has written all its objects again.
	AnnotationEpoch = "fairlead.dev/epoch"
	// AnnotationHeldUntil on an Address whose holder is missing is when the Address is given up, in RFC 3339; an earlier time may be written.
	AnnotationHeldUntil = "fairlead.dev/held-until"
	// AnnotationCheckedByPort on a TargetGroup of Nodes is why its agent has them checked at the port that traffic goes to.
	AnnotationCheckedByPort = "fairlead.dev/checked-by-port"
)

// FinalizerInUse holds the deletion of a LoadBalancerClass or an AddressPool while something uses it.
const FinalizerInUse = "fairlead.dev/in-use"

// AgentLease is the name of an agent's Lease in its Tenant's namespace.
const AgentLease = "fairlead-agent"

// ManagerLease is the name of the Lease in the system namespace that the leading manager holds.
const ManagerLease = "fairlead-manager"

// AgentServiceAccount is the name of an agent's identity in its Tenant's namespace.
const AgentServiceAccount = "fairlead-agent"
