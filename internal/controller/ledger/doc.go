// Package ledger turns decisions of ipam into Addresses, and Addresses back
// into the ledger that ipam decides by.
//
//	LoadBalancer needs ─▶ Grant ─▶ ipam.Decide ─▶ reserved in memory ─▶ one Create or Update ─▶ held
//	                        │ Wait                                        │ somebody else was first
//	                        ▼                                             ▼
//	                     waiters ◀── an address freed, pools changed   read it, decide again
//
// The Address objects are the record. What is reserved in memory and not yet
// written keeps concurrent grants apart, and is dropped for what the API server
// says as soon as the two differ. Waiters are served oldest first, in memory
// and under one lock, so that a newcomer never overtakes them.
package ledger
