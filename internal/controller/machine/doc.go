// Package machine fences a proxy whose Cluster API Machine is gone: what it ran on doesn't exist any more.
//
//	silent proxy with spec.machineRef ─▶ Machine read from the API server itself ─▶ gone: spec.fenced
//
// A proxy that is alive is never fenced so, nor one whose Machine can't be read, or isn't known here because Cluster API
// isn't installed; and none while proxies of its pool say that the hub has changed, for a restored hub lacks Machines too.
package machine
