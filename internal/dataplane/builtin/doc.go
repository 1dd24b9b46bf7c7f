// Package builtin is the data plane in plain Go: it turns an lb.Program into
// listening sockets and relayed connections and flows, for TCP and UDP over IPv4 and IPv6, without privileges.
//
//	client ─▶ listener ─▶ frontend ─▶ pool ─▶ table ─▶ member ─▶ target
//	          (a socket)  (its conns) (port)  (Maglev) (its conns)
//
// Everything on the way of a connection is read through atomic pointers, so
// that Apply swaps a part without a lock on the way of others:
//
//   - A listener is opened when its socket enters the Program and closed when it
//     leaves, and by nothing else. Its frontend can be exchanged beneath it.
//   - A frontend holds the connections that came by it. When its LoadBalancer goes,
//     or its pool moves to another group or port, that frontend retires: its
//     connections live until the pool's DrainTimeout, then they are cut.
//   - A table is shared by all pools with the same lb.TableKey and built when the
//     first connection needs it: a member's change costs one pointer for each table.
//   - A member holds its connections over all pools of its group, from the moment
//     when it was selected, before the connect: when it drains, none is overlooked.
//
// Apply publishes first what new connections shall use and then takes away what
// they shall not. A connection that still comes with the old table is turned
// away by the member and looks again.
//
// A connect that is refused or times out goes on to the next member of the
// table's order, before the client notices. For a moment later connections try
// that member last, and health is told.
//
// The kernel accepts a client before we see it, so a client without a member to
// go to, or from outside the frontend's Sources, is reset right after it was accepted, not refused.
//
// UDP has flows: a client's address and port at a frontend, each with a socket of
// its own to its member. One goroutine for each listener takes clients' datagrams,
// in their order, and never waits for a member; one for each flow takes the answers.
// A flow looks at its member again when table or verdicts have changed: one that is
// dead, refuses or was removed it leaves at the next datagram, one that drains not
// before it is drained out. A removed frontend's socket stays open for the flows
// that it has, until they are idle or its pool's DrainTimeout ends them; datagrams of
// others are dropped, as are those without a member, from outside Sources, and those
// that the member's socket doesn't take. Flows are bounded; beyond, one that was quiet for long ends for a new one.
//
// An address that the Program has assigned is put on this host before its listener is opened, and taken away after its
// last connection (hostaddr).
//
// A successor gets the sockets (handover.go): it accepts from the same queues before this data plane closes its
// listeners, and goes on with the flows. What is open stays here, and is counted there.
//
// What it can't do, Check says.
package builtin
