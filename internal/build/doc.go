// Package build turns the hub's objects into what one proxy serves:
//
//	LoadBalancer ┐
//	Class        │ Validate ─▶ Problems
//	Tenant       ┘    │
//	Address ── ledger ┼─▶ Frontend ─▶ Pool ┐
//	TargetGroup ──────┴─ selection ─▶ Group┴─▶ Snapshot (a namespace) ─▶ Program
//	names ─ addresses ──┘
//
// It is a pure function, remembered object by object: Whole builds at once, a
// Builder step by step, and both give the same. What did not change keeps its
// pointer, so that lb.Diff costs what changed.
//
// A port of a LoadBalancer has a Frontend here if and only if
//   - the LoadBalancer is not being deleted,
//   - its class exists and names this proxy's pool, and its Tenant may use it,
//   - nothing in the table below refuses it,
//   - an Address that is Granted, for this proxy's pool, lists the LoadBalancer as
//     holder of that protocol and port. Of two that list the same socket the older
//     Address, then the first holder has it; the other's port is refused.
//
// What is refused, and what is served without. "LoadBalancer" refuses all its
// ports, "port" that port; "without" serves and leaves out what is named. Each is
// an lb.Problem with the API's reason. The rule: a field whose neglect would be
// unsafe or wrong refuses, one whose neglect costs comfort is served without.
//
//	what                                              reason            costs
//	spec.className empty, no default                  NoClass           LoadBalancer
//	class doesn't exist                               ClassNotFound     LoadBalancer
//	class is not among Tenant.spec.classes            ClassNotAllowed   LoadBalancer
//	Tenant.spec.suspend                               Suspended         LoadBalancer
//	class with none of the four ways to serve;
//	placement One                                     NotSupported      LoadBalancer
//	spec.infrastructureRef in a Tenant's namespace    NotSupported      LoadBalancer
//	infrastructureRef of another API group            Invalid           LoadBalancer
//	no port (role ControlPlane has a default)         NoPorts           LoadBalancer
//	spec.sourceRanges that are none                   Invalid           LoadBalancer
//	spec.proxyProtocol of an unknown version          Invalid           LoadBalancer
//	spec.selector that doesn't parse                  Invalid           LoadBalancer
//	protocol other than TCP, UDP, SCTP                Invalid           port
//	mode HTTP, HTTPS, TLS; tls                        NotSupported      port
//	mode of another protocol                          Invalid           port
//	port or targetPort out of range, port twice       Invalid           port
//	socket that another holder has                    PortInUse         port, this proxy's Refused
//	what the data plane cannot express                its own           port, or one address of it, this proxy's Refused
//	no source range of a family in ipFamilies         Invalid           without: nobody may connect over that family
//	trafficDistribution that is unknown               Invalid           without: all zones alike
//	trafficDistribution, and this proxy has no zone   NotSupported      without: all zones alike, this proxy's Refused
//	class's clientAddress that is unknown             Invalid           without: hidden
//	sessionAffinityTimeout other than 3h              NotSupported      without: a client keeps its target until targets change
//	targetKind Machine, Node in a Tenant's namespace  NotSupported      without: TargetGroups labelled fairlead.dev/for
//	clusterName with targetKind Node                  Invalid           without: no Node is added
//	targetKind of another kind                        Invalid           without: the same
//	machineHooks, and not of Machines                 NotSupported      without
//	addressTypes, and of neither Machines nor Nodes   NotSupported      without
//	role ControlPlane in a Tenant's namespace         NotSupported      without: nothing is published
//	endpoint, alternateEndpoints of another role      NotSupported      without
//	drainTimeout, idleTimeout out of bounds           Invalid           without: the default
//	healthCheck that makes no sense                   Invalid           without: the TargetGroup's, the class's, the default
//	no TargetGroup selected                           NoTargets         without: clients are refused
//	Tenant.spec.targetCIDRs that are none             Invalid           without: they admit nothing
//	target beyond Tenant.spec.quota.targets           QuotaExceeded     that target: what was served before stays (Admit)
//	address out of Tenant.spec.targetCIDRs            TargetNotAllowed  that address
//	target without UID, or in an unknown state        Invalid           that target
//	address with a zone identifier, of no host, or
//	neither address nor name; UID and address twice   Invalid           that address
//	name that stands for no address, or some outside  -                 that target, or those; this proxy's Absent
//	target's weight or drainFor out of bounds         Invalid           without: 1, unset
//
// What a provider kind serves, by spec.infrastructureRef or a class with infrastructureTemplate, no proxy does. There this is otherwise:
//
//	class in a Tenant's namespace                     NotSupported      LoadBalancer
//	template of another API group, or that is none    Invalid           LoadBalancer
//	no port                                           -                 the provider knows whether it is a control plane's
//	endpoint                                          -                 honoured
//	addresses, addressPools; class's addressPools     NotSupported      without
//	class's defaults.healthCheck                      NotSupported      without
//
// A class with service is none of a proxy's: the manager makes a Service of the hub from its LoadBalancers. There this
// is otherwise:
//
//	class of type ClusterIP with loadBalancerClass    Invalid           LoadBalancer
//	class's labels or annotations that are none       Invalid           LoadBalancer
//	proxyProtocol                                     NotSupported      LoadBalancer
//	sourceRanges, and class of type ClusterIP         NotSupported      LoadBalancer
//	healthCheck, and failOpen false                   NotSupported      LoadBalancer
//	sessionAffinityTimeout                            -                 honoured
//	idleTimeout, drainTimeout, healthCheck            NotSupported      without
//	addressPools                                      NotSupported      without
//	class's addressPools, defaults                    NotSupported      without
//	target known by a name alone                      NotSupported      that target
//	loopback and link-local addresses                 TargetNotAllowed  that address, whatever targetCIDRs say
//
// A namespace of no Tenant is the hub operator's: it may use every class and
// target. A Tenant's targets lie in its targetCIDRs, and none may where the list is
// empty; loopback, link-local and a cloud's metadata addresses only in ranges that
// are such themselves, so that 0.0.0.0/0 and ::/0 open none of them. That a Tenant has
// no range of a family is no Problem of targets that have an address of the other.
//
// Families: whatever the ledger grants is served. An address's Frontend sends to the
// Group of its family, in which a target is a member by the first address of that
// family. A target that has no IP address at all, but a name, is a member by each
// address that SetNames says the name stands for, of either family; by 64 at most.
//
// Checks: the LoadBalancer's own, else that of the first TargetGroup by name which
// has one, else the class's, else TCP on the target port. For UDP and SCTP nothing is
// asked by default, and a TargetGroup's or class's TCP check that names no port is
// passed over. A check of the port that gets PROXY headers begins with one itself.
//
// The last good form of a frontend is kept only for what the data plane cannot
// express (Options.Check). Whatever withdraws the frontend itself, by deletion,
// permission, ledger or suspension, withdraws its last good form too.
package build
