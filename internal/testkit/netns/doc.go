// Package netns turns a few lines into a network of this machine's own: network
// namespaces joined by links, with addresses and routes, in which tests dial,
// listen and start processes.
//
//	Network ──Namespace──▶ Namespace ──Link, Bridge, Address, Route──▶ a topology
//	                          │
//	                          └─Do, Dial, Listen, ListenPacket, Start──▶ sockets and processes in it
//
// A Namespace has no name in the file system: it is held by a file descriptor, by
// the sockets opened in it and by the processes started in it, and is gone when
// they are, however this process ends. A socket stays in the namespace in which it
// was opened, so that connections and listeners can be used from any goroutine.
//
// Building is written without error checks: the first failure is remembered,
// what follows does nothing, and Network.Err says what failed.
//
// It needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and Linux.
package netns
