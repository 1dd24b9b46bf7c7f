// Package machines turns Machines of Cluster API, or Nodes of the hub, and what the TargetGroups of a LoadBalancer hold of
// them into what these are to hold next:
//
//	Machines, Nodes ─ Read ─┐
//	TargetGroups, proxies ──┼─▶ Make ─▶ Plan ─┬─▶ TargetGroups
//	Cluster, LoadBalancer ──┘  member.Decide   ├─▶ hook and state of each Machine, state of each Node
//	                                           └─▶ LoadBalancer.status.targets
//
// It calls nothing. What is in neither a Plan's members nor its TargetGroups was found to be gone. While nothing may move, a
// Plan's TargetGroups are those that there are, with whoever they name, whether he is seen or not.
package machines
