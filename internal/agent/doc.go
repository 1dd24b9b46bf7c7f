// Package agent runs in or beside a tenant cluster and keeps the hub's namespace of that
// tenant in step with it:
//
//	tenant                                   hub namespace
//	Service ──service.Want───────────SSA──▶ LoadBalancer
//	Service ◀─status, event──service.Judge── LoadBalancer.status
//	Service ──service.Backend────────SSA──▶ TargetGroup of its own, where another load balancer serves it
//	Node ────node.Target, Place──────SSA──▶ TargetGroup nodes-0, …
//	kube-system's UID ───────────────SSA──▶ Lease fairlead-agent
//
// In Cluster API's management cluster it mirrors LoadBalancers over Machines, too, as package management says (mirrors.go).
//
// The thinking is in the pure packages service, node and management; here are the caches, the writes and
// what keeps them few:
//
//   - A Service costs four writes until it is published: finalizer and LoadBalancer in parallel,
//     status, event. A Node's change costs one, whatever the number of Services.
//   - In a burst, LoadBalancers are written first, and what is written to Services comes behind
//     them (internal/yield).
//   - Nothing is written twice because a cache is a moment behind: memory knows what was
//     written and not yet seen.
//   - What concerns all Services, such as the Nodes' health, is told by one event, about the whole cluster.
//   - Where the hub finds that no Node passes its check, the agent asks the Nodes itself whether they have a kube-proxy (checking.go).
//   - An event follows a change of the condition fairlead.dev/Programmed, asynchronously, so that
//     a restart repeats none.
//
// When either API server is away, what is to be written waits, at most five seconds between two
// tries, and watches go on where they were (internal/patience).
package agent
