// Package machine fences a proxy whose Cluster API Machine is gone: what it ran on doesn't exist any more.
//
//	silent proxy with spec.machineRef ─▶ Machine read from the API server itself ─▶ gone: spec.fenced
//
// A proxy that is alive is never fenced so, nor one whose Machine can't be read, or isn't known here because Cluster API
// isn't installed. A restored hub lacks Machines, too: so none is fenced unless another of its pool serves in this hub as it
// always was, none that this manager has never seen a Lease of, none while one of its pool serves on what it had before the
// hub changed, and none while an AddressPool is being restored of which its pool serves addresses, by a class or by the ledger.
package machine
