// Package simulation turns a seed into a schedule of the whole protocol in one
// process on fake time, and judges each moment of it.
//
//	seed ─▶ World: server ◀─ managers (two at times), proxies, agents, people
//	          │      └ watches lag apart, lists, bookmarks, answers lost, requests late, conflicts
//	          ▼
//	        judge: Programmed, served, held, at the end
//
// What decides is the product's own code: a manager here is the real ledger, fleet and
// reconcilers of LoadBalancers and Addresses over a cache that lags; a proxy
// is the real proxy.View and build over a pretended data plane. Only what is
// around them is played: the API server, the order in which
// things happen, and the proxy's writes (file, reports, status, Lease), one step at a time.
//
// The judge holds, at each step:
//
//   - a LoadBalancer that becomes Programmed is served by each live proxy as it stands, but for what its status names;
//   - no Address is deleted while a proxy serves it, or has connections of it open;
//   - nobody is granted a port of an address that a proxy still serves for another namespace's LoadBalancer;
//   - no port of an address has two holders;
//   - a member that a TargetGroup's status calls drained gets no connection from anybody, and nobody has one open;
//   - once faults stop, all that is wanted is Programmed, or waits for what is held, nothing goes on being released,
//     and at rest nothing is written but Leases.
//
// Not played yet: hubs that are restored or replaced, epochs and freezes, two processes of one
// name. Not judged: what the product means. A LoadBalancer that
// leaves an address which others of its own namespace hold makes way at once, and
// connections that are open on an address which stays held may outlive their holder. Nor what a
// status that is Programmed already says of ports that come to it later.
//
// A proxy that joins, starts anew or comes back after a silence counts once the manager has heard of it.
//
// What it finds, and nobody mended yet: connections that are open when their namespace ends keep no address from its
// next holder, for there is no place where a proxy could say that it has them.
//
// A Bug makes the played part do something wrong; the tests plant each, and
// the judge must find it.
package simulation
