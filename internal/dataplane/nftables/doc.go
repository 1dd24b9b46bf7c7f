// Package nftables is the data plane in the kernel: it turns an lb.Program into
// the elements of one nftables table, and leaves the packets to the kernel.
//
//	Program ─▶ plan ─▶ want ┐
//	                        ├─ differ ─▶ change ─▶ one transaction ─▶ kernel
//	kernel ──▶ read ─▶ have ┘                                           │
//	                                                                    ▼
//	Observation ◀─ leavers, closers ◀─ watch ◀─────────────────────  conntrack
//
// # The table
//
// A new connection is looked up twice:
//
//	frontends4  address . protocol . port ─▶ mark             one element a frontend
//	slots4      mark . hash of the client  ─▶ member          256 elements a spread
//	ports4      address . protocol . port ─▶ member's port    one element a frontend
//
// (and the same with 6). A spread is what pools share that agree in lb.TableKey and KeepClient: its slots are
// lb.Table's, so a member's change is some elements whatever the number of frontends over it, and a frontend's change
// is a few elements. The hash is of the client's address and port (HashFlow) or of its address (HashClientIP), with
// a fixed seed: it and the slots are the same on each proxy, so a second one sends the same connection to the same member.
//
// The mark goes into the connection (ct mark) and says whose it is: see mark. Only a connection's first packet sees
// these maps. Later ones follow conntrack, whatever has changed since, and whether or not this process runs.
//
// The rules stand so that most connections meet few of them. A frontend whose sources are limited has its mark in admitted4
// instead: only what finds nothing in frontends4 is asked where it comes from, or whether its address is ours at all. A look-up
// that finds nothing costs twice as much as one that does, and a test of bits in a packet or a mark next to nothing.
//
// Clients are turned away by a TCP reset, or ICMP port unreachable for UDP and SCTP, where a frontend has no member and
// at ports of a served address that nobody serves; what sources may not connect is dropped.
//
// # Connections that end
//
// What conntrack knows is looked at only for marks that somebody leaves (watch). A connection that must end
// gets a bit in its mark: the client's next packet is answered by a reset, the member's next one is made into the
// client's reset. A connection in the middle that conntrack does not know is reset.
//
// # Restart
//
// Everything stays in the kernel when the process ends. The next one reads it, and its first Apply changes only what
// differs: each mark's element says, in a comment, for which tenant, group and spread it stands; each frontend's, for
// which LoadBalancer. Addresses that we put on the host carry our protocol number.
package nftables
