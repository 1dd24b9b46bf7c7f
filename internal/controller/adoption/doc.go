// Package adoption brings the ledger to what runs, after a hub was restored or replaced:
//
//	frozen proxies' reports (serves) ─▶ ipam.Adopt, an address at a time ─┬▶ Address created or changed
//	                                                                       ├▶ a stale proxy fenced
//	                                                                       └▶ a dispute, on the AddressPool
//
// It waits until each live proxy was heard of since this manager's start, and until the reports of the frozen ones are
// all here: who contradicts must have had his say. An address that can't be written keeps no other from being adopted, and no stale
// proxy from being fenced.
package adoption
