// Package ipam turns what a LoadBalancer needs, the AddressPools in their order
// and the ledger of Addresses into a Decision: keep, create, join, change or
// return a line of the ledger, or wait, with a reason for people.
//
// It is pure: it calls nothing and knows no clock. The Ledger is an index over
// the Addresses that the API server holds (or will hold in a moment: what was
// decided is Set at once, so that the next decision sees it). Equal ledgers
// give equal decisions, in whatever order they were filled. Free addresses are
// found without a scan: each pool remembers up to where everything was held,
// and a heap of what was freed below.
package ipam
