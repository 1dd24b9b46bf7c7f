// Package proxy turns the hub's objects into traffic, and says how far it has
// come:
//
//	hub ─ watch ─▶ Inbox ─▶ loop: build ▶ + health ▶ Diff ▶ Apply ─▶ reporter: file, ProxyReports, Proxy.status
//	                          ▲                                          │
//	                          └── data plane, checker, retry timer       └─ lease: every 10 s
//
// The loop (loop.go) is one goroutine. Each turn it takes everything that the
// five watches delivered, with the resource versions up to which that is all,
// builds one Program and applies it. Events that come meanwhile wait for the
// next turn; there is no other debounce. What the data plane refused, or failed
// with, is tried again after pauses that grow, and at once when it changed.
//
// The reporter (reporter.go) is a second goroutine: a slow hub never holds up
// an Apply. It takes the newest state that was applied and writes, in this
// order, the last-good file (file.go), the exceptions (exceptions.go,
// reports.go, deliver.go), then Proxy.status.through (status.go). That order is what
// others may rely on: who reads a version in `through` finds everything that
// this proxy does not plainly serve up to there in its reports. Two more watches,
// by the own name, show it what others make of its Proxy and its reports
// (heard.go): it writes them again. A namespace whose report can't be written is
// held, and proves nothing; the others go on.
//
// Before its first view is complete (all five lists, its own Proxy, registered
// under its name) a proxy serves nothing, or what its last-good file holds.
//
// A process that finds another one running under its name and state directory
// takes over from it (run.go; handover.go has the protocol, predecessor.go and
// successor.go its two sides, wire the messages): at no time do both write.
package proxy
