// Package dataplanetest turns any data plane into a row of facts: it runs flows
// that a user would notice, with real sockets, and writes down which of them
// the data plane can do.
//
//	Factory ──Run──▶ for each flow: a network of namespaces, members that answer with their names,
//	                 and the data plane in a process of its own on the load balancer between
//	                     │
//	                     ├─ Check refuses the flow's Program: refused it must stay, at nobody else's cost
//	                     └─ else the flow runs
//	                                        └──▶ docs/data-planes.md
//
// The process of the data plane is the test's own binary, started again in the
// load balancer's namespace (Main), with health checks as a proxy has them. It
// is told what to do over a socket, may be killed, and followed by another.
//
// A flow is a value of type flow, in the file of its subject. It begins with a
// Program that asks for all that it wants, so that Check can judge it.
package dataplanetest
