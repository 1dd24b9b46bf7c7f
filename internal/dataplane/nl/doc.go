// Package nl speaks netlink as far as data planes need it: one
// connection that stays open, requests and dumps, and nfnetlink batches, which
// the kernel takes as a whole or not at all.
//
//	Attrs ─▶ Batch ─▶ Conn.Commit ─▶ kernel
//	                      └─▶ *Refusal: which message, which attribute of it
//
// It is written here, not taken from a library, for what those that exist do
// not hand out: the place in a batch of what was refused, and attributes as they
// came, which cost nothing to keep and send back.
package nl
