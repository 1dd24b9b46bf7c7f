// Package yield puts writes that no traffic waits for behind those that traffic waits for,
// while many of the latter come:
//
//	Urgent: a LoadBalancer, an Address ──▶ written at once, always
//	Yields: a status, a finalizer ──▶ written at once, or after the burst, or after three seconds
//
// A write costs an API server some milliseconds of its processors' time, a status of a custom
// resource twice as much as its creation. In a burst they are what answering waits for.
// One object alone is never held up.
package yield
