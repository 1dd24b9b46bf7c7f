// Package resolve turns names of targets into their addresses, and follows them.
//
//	SetNames ─▶ one goroutine a name ─▶ answers ─▶ Addresses
//	              (lookups bounded in number)
//
// How a name's addresses come about:
//
//   - It is looked up at once, then at each interval, with jitter; in quicker
//     succession while nobody has answered yet.
//   - An address that is new in an answer is used from then on.
//   - One that is missing from answers is used for a while longer (Options.Hold): a
//     name server may give a part of many addresses each time. Health checks find what is dead.
//   - A lookup that fails, or finds that there is no such name, changes nothing: a
//     name server's failure must not take targets away.
//
// Names that have a dot are looked up as they stand, without search domains: what
// a tenant wrote means the same on every proxy.
package resolve
