// Package member turns what is seen of a LoadBalancer's targets of kind Machine or Node into what is wanted of each:
//
//	Machine, Node ─▶ Selector, Addresses ┐
//	                                     ├─▶ Member ─▶ Decide ─┬─▶ Place ─▶ TargetGroups
//	proxies' words ─▶ Look ─▶ Sight ─────┘                     └─▶ Annotate ─▶ state and hook of the Machine, state of the Node
//
// It calls nothing and knows no clock: how long a member has been waited for, the caller says. A state is of what was
// observed on the data plane, never of what was asked for. What is safe to do hangs on what is seen now; the state before
// only chooses between words, so that a status that was lost costs nothing else.
//
//	state      when                                                   the TargetGroup says
//	waiting    it has no address yet                                  nothing
//	adding     no proxy has found it healthy yet                      Serving
//	active     a live proxy sends to it and finds it healthy          Serving
//	unhealthy  it was active, and no live proxy finds it healthy      Serving
//	disabling  the annotation disabled is there, a proxy may send     Draining
//	disabled   it is there, and all proxies have stopped              Draining, or nothing if it never served
//	updating   its Machine is updated in place                        Draining, if another one stays active
//	removing   it is to leave, and a proxy may send to it             Draining; Serving while the last active one is waited for
//	removed    all proxies have stopped, and it is safe to delete     Draining while it is selected, then nothing
//
// A Kind says what differs between Machines and Nodes: how a LoadBalancer is named in annotations, and which are its targets.
//
// The names are those of the load balancer proposal for Cluster API where that has them (active, removed, disabled, adding,
// disabling, removing); the annotation disabled counts by presence, as there.
//
// What comes first, where several are true: nothing moves (paused, moving to another hub, the hub has changed); it is to leave;
// it is disabled; it has no address; its Machine is updated, or its Node is about to be scaled down; none of these.
//
// A person's word (disabled, deletion, a selector) goes through, though it be the last active member. What is only inferred
// (an update in place, the autoscaler's taint) drains a member only while another one that nobody wants out is active. A
// deletion of the last active one is put off while another is on its way, at most for half of maxWait: the rest is for the drain.
//
// The hook that holds a Machine's deletion is there before the TargetGroup names the Machine, so that whoever finds neither
// hook nor target knows that nothing was ever sent there. Without hooks nobody knows that: a Machine with an address is listed as Draining
// before it is called removed or disabled, so that proxies say so. The hook goes when the member is removed, and on each of these ways out,
// for a hook must never wedge a cluster: the LoadBalancer, the Cluster or its control plane is being deleted; hooks are
// switched off; Cluster API's health check has given the Machine up, and nobody finds it healthy when it is to leave; maxWait has passed and the policy is Release, or the Machine isn't selected
// any more. A Machine that is being deleted already gets no hook, and no traffic that it hasn't. Cluster API runs hooks before
// it drains the node (pre-drain) or before it deletes the infrastructure (pre-terminate), without any bound of its own.
package member
