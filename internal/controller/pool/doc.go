// Package pool turns AddressPools into the ledger's pools, and the ledger's
// sums into their status: free, granted, releasing, which older pool keeps an
// overlap, and which silent proxy blocks a release. Sums are written at most
// once a second. A pool that is to be deleted grants nothing new, and is held
// while addresses of it are in the ledger.
package pool
