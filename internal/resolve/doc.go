// Package resolve turns names of targets into their addresses, and follows them.
//
//	SetNames ─▶ one goroutine a name ─▶ answers ─▶ Addresses
//	              (lookups bounded in number, and shared between tenants)
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
// What one tenant's names cost, others don't pay: a tenant has so many names looked
// up and no more, a part of the lookups in flight at most, and the next one that is free
// goes to whoever has the fewest. A name that several want counts for the one with
// the fewest names. Whoever doesn't answer is asked more and more seldom.
//
// Names that have a dot are looked up as they stand, without search domains: what
// a tenant wrote means the same on every proxy.
package resolve
