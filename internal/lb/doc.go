// Package lb is the model: what one proxy serves, as plain values.
//
// A Program holds one Snapshot for each tenant; a Snapshot holds Frontends,
// which point to Pools, which point to Groups of Members:
//
//	Program ── Snapshot (one a namespace)
//	             Frontend  address:protocol:port ─┐
//	             Pool      target port, check  ◀──┘─┐
//	             Group     members, no port    ◀────┘
//
// A Group has no port, so that a thousand Frontends over one node set share
// it, and a node's change is one Member's change whatever their number.
//
// Values are immutable once they are part of a Program: they are shared by
// pointer between Programs and goroutines, and compared by value. Whoever wants
// another value makes a new one.
//
// The package imports the standard library only; hack/lint holds it to that.
package lb
