// Package member brings the Machines of Cluster API, or the Nodes of the hub, behind a LoadBalancer into its TargetGroups, and out
// again, as internal/machines and internal/member decide:
//
//	Machines, from the cache ─┐                                      ┌─▶ 1 hooks that come, with the states
//	Cluster, control plane ───┼─▶ Facts ─▶ Plan ─ anything to do? ─┬──┼─▶ 2 TargetGroups <lb>-members-<n>
//	TargetGroups, proxies ────┘       ▲                            │  ├─▶ 3 hooks that go, and states
//	                                  └─ again, read from the hub ─┘  └─▶ 4 LoadBalancer.status: targets, activeTargets, members
//
// The order of the writes is the protocol: whoever stops between two of them leaves a Machine that is held and not sent to, or
// drained and still held. Each write fails if its object isn't as it was read. Before the first of them all is read again from
// the API server itself: a cache that lags drops nobody.
//
// What a proxy has said wakes the LoadBalancers that wait for proxies; that one comes or falls silent wakes all of its pool.
// How long a Machine has been to leave is remembered in memory, by the manager's own clock: a restart begins to count again. What
// fails is joined and said; it holds up no other Machine.
//
// A LoadBalancer that is being deleted, or isn't one of Machines any more, is held by a finalizer until no Machine carries its
// hook. One that went without, as where somebody took the finalizer off, has its hooks lifted when its Machines show them.
//
// Nodes go the same way without hooks, and without a Cluster: kind.go has what differs. They are watched as long as a LoadBalancer has
// them as its targets; of their many writes only what a Plan would read wakes one. A LoadBalancer that comes from one of the two kinds to
// the other keeps its TargetGroups: what stands there is drained as if it were gone, and only then its Machine is let go.
package member
