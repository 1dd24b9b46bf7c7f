// Package lead keeps a manager from writing where it doesn't lead any more, or where the hub isn't the one that its caches are of.
//
//	leaders' Lease, each renewal ─▶ Guard ◀─ a watch was opened, a list answered
//	                                  │
//	            every write asks ─────┴▶ renewed in time? still the hub that it was?
//
// A hub is another one, or an older copy of itself, where the UID of kube-system differs, or where the leaders' Lease reads older than it
// was read or written before. An older copy it is also where an object, or a list, is at an earlier version than it was. Then a manager
// ends its run and starts anew, with empty caches.
package lead
