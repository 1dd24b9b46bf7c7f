// Package loadbalancer turns a LoadBalancer into a grant of the ledger and a
// status:
//
//	LoadBalancer, class, Tenant ─▶ build.Validate ─▶ Accepted
//	                                   │
//	              ledger.Keeper.Grant ─┴─▶ AddressGranted
//	                                   │
//	   fleet views ─▶ proof.JudgeProgrammed ─▶ Programmed, ports ─▶ describe ─▶ one status write
//
// Where the class has spec.service, package service stands in for ledger and fleet (service.go): it makes a Service of the hub,
// and what that says becomes AddressGranted, Programmed and ports.
//
// A LoadBalancer that waits for proxies is judged in memory whenever a view
// changes (pending.go), and reconciled only when its answer does. A status that
// says no more than "wait for the proxies" is written only if it stays so for a
// moment, and then left alone for a while, so that the good path costs one Address
// and one status, and the slow one a status more, however many proxies there are.
// While many grants are written, the statuses of what is granted come behind them.
// Changes of what was followed before take turns, one at a time in each namespace (turns.go).
package loadbalancer
