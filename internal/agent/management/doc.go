// Package management is what an agent thinks about LoadBalancers over Machines, in a management cluster whose hub is elsewhere. The
// controller of members runs there, and writes TargetGroups there, too; the agent mirrors both:
//
//	management cluster                        hub, the Tenant's namespace
//	LoadBalancer ────────── Want ───────────▶ LoadBalancer <name>-<hash>, which selects
//	TargetGroup <lb>-members-<n> ─ Follow ──▶ TargetGroup <name>-<hash>-machines-<n>
//	LoadBalancer.status ◀── Status ────────── LoadBalancer.status: addresses, ports, conditions
//	controller of members ◀─ Sight ────────── TargetGroup.status: who is active, who is drained
//
// What the hub's manager says of a target, in a status that no tenant may write, is the proof that lets a hook go. It counts for
// the generation that it speaks of, and for a target that stands in the hub as it does here. A hub that is another one than the
// LoadBalancer was served in proves nothing before its proxies serve it.
//
// It calls nothing, and what it is given isn't changed.
package management
