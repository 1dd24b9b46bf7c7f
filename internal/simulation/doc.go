// Package simulation turns a seed into a schedule of the whole protocol in one
// process on fake time, and judges each moment of it.
//
//	seed ─▶ World: server ◀─ managers (two), proxies, agents, people
//	          │      └ watches lag apart, lists, bookmarks, answers lost, requests late, conflicts; restored, replaced
//	          ▼
//	        judge: Programmed, served, drained, held, kept, at the end
//
// What decides is the product's own code: a manager here is the real ledger, fleet and
// reconcilers of LoadBalancers, Addresses, TargetGroups, Machines, adoption, epochs and questions, and the guard of its writes, over a cache that lags; a proxy
// is the real proxy.View and build over a pretended data plane. Only what is
// around them is played: the API server, the order in which
// things happen, the managers' election as client-go's, the agents, and the proxy's reads and writes (file, hub confirmed,
// reports, status, Lease), one step at a time.
//
// The judge holds, at each step:
//
//   - a LoadBalancer that becomes Programmed is served by each live proxy as it stands, but for what its status names;
//   - no Address is deleted while a proxy serves it, or has connections of it open;
//   - nobody is granted a port of an address that a proxy still serves for another namespace's LoadBalancer;
//   - no port of an address has two holders;
//   - a member that a TargetGroup's status calls drained gets no connection from anybody, and nobody has one open;
//   - what was Programmed, and is wanted on, goes on being served where the hub is restored from an older copy, or replaced by
//     an empty one in which people make classes, pools, Tenants and namespaces again, restarts and hand-overs included;
//   - nobody says that he is through what the present hub hasn't told him, or renews his Lease before he has said there who he is;
//   - a Machine that a LoadBalancer calls removed or disabled gets none of its connections from anybody, nobody has one open, and it serves
//     no more if it is being deleted. A hook that the manager lifts before that has another way out: maxWait, a LoadBalancer or Cluster that goes, or a
//     Machine that is dead;
//   - a Machine that a LoadBalancer sends to is held by its hook, if it has one, and people didn't take it off;
//   - nobody is drained for an update in place while no other Machine serves, or each other one is known to fail its check; nor is the last active
//     one that is deleted, within the first half of maxWait, while another one is on its way;
//   - no target whose Machine isn't there is taken out while none of its LoadBalancer's Machines is there, and no other one;
//   - who knows that a proxy serves on what it had before the hub changed writes nothing of Machines, nor of the targets that were made from them;
//   - no new connection goes to a Machine that fails its check while another one doesn't, nor where all do and the LoadBalancer doesn't fail open;
//   - no Machine is called active that each live proxy is known to find unhealthy, nor unhealthy where all find it healthy;
//   - no manager begins to write while another leads, or updates or deletes an Address without the version that it has read;
//   - once faults stop, each Machine that is deleted goes, none keeps a hook of whose target it isn't, the others are active, or disabled, but for those that
//     fail their check: none of these is active;
//   - once faults stop, all proxies have thawed, all that is wanted is Programmed, or waits for what is held, nothing goes on
//     being released, and at rest nothing is written but Leases.
//
// Options.Changes has hubs change. Then a proxy may serve against the ledger, until it follows the new hub:
//
//   - an address that the ledger lacks: it is to be adopted;
//   - an address that the ledger has for whoever had it in the copy. Nobody else gets it, but where a proxy was out of
//     reach, or unknown to the copy, and nobody had said that the pool is being restored: nobody can wait for whom he doesn't know.
//
// Options.Machines gives the hub operator's namespace a Cluster, and LoadBalancers over its Machines: all others resolve none. People make,
// delete, disable, pause and let go of Machines, select others, and take hooks off; Cluster API's own part, which waits for hooks, is played. The
// manager's is the product's reconciler of members. Once faults stop, people end what waits for them: pauses, and targets that serve though
// none of their Machines is there, by another Machine.
// Options.Checks has LoadBalancers check these Machines: their servers start late, die and come back, a host loses its way to one, and Cluster API's own
// health check remediates some that are dead. Each host's verdicts are played; what is made of them, for connections and reports, is the product's.
//
// With Changes, a copy of the hub has its Machines and Cluster as they were, and Cluster API looks at hooks anew. Of a hub that was replaced people
// bring most Machines back, one by one, under other UIDs, at times with the annotations that they had, and at times after the TargetGroups that
// name those that were. What a host sends to isn't judged while it serves on what it had, if the hub changed while it was out of
// reach, or has no Proxy of it: nobody knows of it. A Machine in a copy that is older than its hook has none until it gets one.
//
// Managers live through a change with their caches, but for one that must take the copy for its hub: it has read no leaders' Lease yet, or
// nobody has led since the copy was made. It is started anew, as people do with all who run while they restore (manager.canNotTell).
// Where the copy's Lease is the younger one, as of two copies that are restored one after the other, a manager goes by versions that go back.
// Hubs are restored again before they have settled, from the same copy or another, within one epoch or in the next.
//
// A manager may stand still between its look whether it may write and the write, until another leads. Each schedule has a temper of its
// own: what it has much of, and what it lacks. One in eight of those whose hub stays has a second process of a proxy's name: what these
// two serve isn't judged from then on, for each speaks for both; all else is.
//
// What is not played: in a hub that changes, second processes of a name. What the product means is not judged:
// a LoadBalancer that leaves an address which others of its own namespace hold makes way at once, and
// connections that are open on an address which stays held may outlive their holder (in builtin, UDP flows of its clients
// go on to it after the port was given to another tenant). Nor what a
// status that is Programmed already says of ports that come to it later.
//
// A proxy that joins, starts anew or comes back after a silence counts once the manager has heard of it. One that has heard of a hub what it
// has yet to follow, and asks only after the hub has changed again, follows that: what its last word ended isn't kept. Nor is what goes with a
// namespace that was ending when the copy was made: Kubernetes goes on with that.
//
// What it finds, and nobody mended yet, the worst first:
//
//   - A machine that was off when the hub was replaced, without a word that the pool is being restored, comes back and serves by its file what
//     was granted to somebody else meanwhile. Nobody could know of it; become excuses only machines that are on.
//   - A proxy that serves nothing when the hub changes (it has just joined) thaws at once and serves by the old copy's ledger. Then it
//     contradicts those who are frozen, and nothing is adopted before a person fences one side (World.decide does).
//   - A hub that lost only what a proxy had heard, and not answered with a status yet, and whose versions have grown past that when
//     the proxy asks, is taken for the one that it was; a watch that resumes then shows what was lost for good. It takes a copy that is
//     seconds old. World.unwritten keeps such copies from being restored.
//   - A proxy that ends within the second in which what it began to serve waits for its file, while the kernel serves on, knows nothing of
//     that when it is back: if the hub was replaced meanwhile, it takes away what others go on with, and says of no connection
//     that it is open (host.unfiled). Its file would have to be synced before each addition.
//   - A manager that starts while nobody leads, and waits for the Lease while its hub is restored, leads with the caches of before: the
//     Lease that it has read is the copy's too (manager.canNotTell; that also leaves out managers whose caches are older than what they
//     read of the Lease, which lead.Guard.Meet prevents in an older copy as it does where another hub answers, which is played).
//   - A process that has yet to register takes for one hub what it lists of two, where the hub is restored twice meanwhile: it says that it is
//     through what only the first had, until its watches list anew (change.mixed). One that no watch connects yet notices nothing at
//     all: it may renew its Lease before it looks.
//   - Connections that are open when their namespace ends, or when the hub changes and their frontend is no more, or will be no more
//     by what was heard of the hub before, keep no address from its next holder: there is no place where a proxy says that it has
//     them (host.untell).
//
// Not played, and so not found: an agent that stays away after the hub was restored, of which a LoadBalancer had fewer ports when the copy
// was made. Once the ledger has thawed, the manager goes by that LoadBalancer and gives up the ports that it lacks (ipam's portsOn), though
// its namespace still waits for the agent; so proxies take them away until the agent is back.
//
// A Bug makes the played part do something wrong; the tests plant each, and
// the judge must find it. Some need schedules that have much of one fault (Tempers).
//
// Rules of the protocol that no planted bug stands for: they are played, but the judge didn't find within the 120 to 500 schedules
// that were tried where they were broken. A Lease names the status that its versions belong to. A report that stands by a write without an answer is named in
// the next status. An agent looks live at what is there before it notes an epoch. A proxy reads who the hub is before it registers. A
// manager asks the API server, not its cache, before it grants and lets go. A listed Lease is not a renewed one. A manager
// whose caches' versions go back ends. A namespace that took no report of what is refused in it is held.
//
// Files: world.go begins, schedule.go and temper.go say what happens next, faults.go, hub_change.go, rivals.go and people.go what goes
// wrong and who mends it, settle.go how it ends; machines*.go do so for Machines. server.go and link.go are the API server and the way to it. manager*.go, proxy*.go and
// agent*.go are the three parts; judge*.go holds each moment to what is promised.
package simulation
