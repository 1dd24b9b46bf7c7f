// Package controller wires the manager's controllers to the hub:
//
//	informers ─┬─▶ ledger.Keeper  (Address, AddressPool)          memory
//	           ├─▶ fleet.Fleet    (Proxy, Lease; ProxyReport)     memory
//	           ├─▶ kit.Versions   (what was first seen when)      memory
//	           └─▶ queues ─▶ reconcilers, one folder a kind       writes
//
// Every write asks lead.Guard first: does this manager lead, and is the hub the one that its memory is of?
//
// The memory runs on standby too. Reconcilers run in the leader only, and start
// once all memory is complete: nothing is granted or released from half a view.
package controller
