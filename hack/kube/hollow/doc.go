// Package hollow turns the Nodes, Pods and Services of an API server into real
// TCP and UDP traffic in one process, without containers and without root.
//
//	Node  → an address of its own, loopback or not, and an IPv6 one where it is
//	        given; Lease and Ready condition kept fresh
//	Pod   → an echo server in this process, of HTTP and of datagrams (see echo.go
//	        for its answers)
//	Service, EndpointSlice → NodePorts and healthCheckNodePorts on each node's
//	        address, and :10256/healthz
//
// Which endpoints a NodePort may use is decided by kube-proxy's own exported
// code (change trackers, CategorizeEndpoints, ProxyHealthServer), one set a
// node and family. Only the last hop is ours: an accepted connection is handed to the
// chosen Pod's server as it is. A UDP flow
// stays with its endpoint while that is there, as by conntrack.
//
// What differs from a real node, on purpose. test/differential asks the same of the
// real kube-proxy, and finds no more than this:
//
//   - A NodePort with no usable endpoint is closed: clients are refused at once.
//     (kube-proxy drops, rather than refuses, where externalTrafficPolicy is Local
//     and only other nodes have endpoints.)
//   - A Pod sees the client's own address whatever the policy; kube-proxy puts the
//     node's in its place where externalTrafficPolicy is Cluster.
//   - Who connects counts as an outside client, even from this machine.
//   - A Node that is deleted takes its NodePorts along. kube-proxy ends then, but its
//     rules stay.
//   - A Pod listens on its declared container ports, or on all if it declares none.
//     A connection for another port is reset, after it was accepted.
//   - No SCTP.
//   - Pods of a node that is told to die run on and are reached through the other
//     nodes; nothing more is done for them until the node is back.
//
// One process serves all nodes of one cluster, as the last hop is inside it.
package hollow
