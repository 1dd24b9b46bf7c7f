// Package build turns the hub's objects into what one proxy serves:
//
//	LoadBalancer ┐
//	Class        │ Validate ─▶ Problems
//	Tenant       ┘    │
//	Address ── ledger ┼─▶ Frontend ─▶ Pool ┐
//	TargetGroup ──────┴─ selection ─▶ Group┴─▶ Snapshot (a namespace) ─▶ Program
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
//	class without proxy; placement One                NotSupported      LoadBalancer
//	spec.infrastructureRef                            NotSupported      LoadBalancer
//	no port (role ControlPlane has a default)         NoPorts           LoadBalancer
//	spec.sourceRanges, spec.proxyProtocol             NotSupported      LoadBalancer
//	IPv6 first or alone; RequireDualStack             NotSupported      LoadBalancer
//	spec.selector that doesn't parse                  Invalid           LoadBalancer
//	protocol UDP, SCTP                                NotSupported      port
//	mode HTTP, HTTPS, TLS, UDP; tls                   NotSupported      port
//	port or targetPort out of range, port twice       Invalid           port
//	socket that another holder has                    PortInUse         port, this proxy's Refused
//	IPv6 address granted                              NotSupported      port, this proxy's Refused
//	PreferDualStack, two ipFamilies                   NotSupported      without: IPv4 only
//	sessionAffinityTimeout other than 3h              NotSupported      without: a client keeps its target until targets change
//	targetKind Machine, Node (resolved later)         NotSupported      without: TargetGroups labelled fairlead.dev/for
//	targetKind of another kind                        Invalid           without: the same
//	role ControlPlane, endpoint, alternateEndpoints,
//	machineHooks, addressTypes                        NotSupported      without
//	drainTimeout, idleTimeout out of bounds           Invalid           without: the default
//	healthCheck that makes no sense                   Invalid           without: the TargetGroup's, the class's, the default
//	no TargetGroup selected                           NoTargets         without: clients are refused
//	target out of Tenant.spec.targetCIDRs             TargetNotAllowed  that target
//	target that is a name, or has IPv6 only           NotSupported      that target
//	target with a zone identifier, no UID, an
//	address that no host has, a UID and address twice Invalid           that target
//	target's weight or drainFor out of bounds         Invalid           without: 1, unset
//
// A namespace of no Tenant is the hub operator's: it may use every class and
// target. A Tenant's targets lie in its targetCIDRs, and none may where the list is
// empty; loopback and link-local targets only in ranges that are loopback or
// link-local themselves, so that 0.0.0.0/0 opens neither.
//
// The last good form of a frontend is kept only for what the data plane cannot
// express (Options.Check). Whatever withdraws the frontend itself, by deletion,
// permission, ledger or suspension, withdraws its last good form too.
package build
