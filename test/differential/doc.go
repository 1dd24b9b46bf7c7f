// Package differential holds hollow nodes, and the class `service`, to the real
// kube-proxy.
//
// The first test serves one set of Services and EndpointSlices twice, at the same
// addresses in separate networks, and asks both the same:
//
//	                 ┌─▶ hollow nodes of one namespace ◀────────────── client
//	one API server ──┤
//	                 └─▶ kube-proxy node-1, node-2 ── their Pods ◀──── client
//
// What may differ is named in differences_linux_test.go, with why. The second test
// has a hub and a tenant cluster whose nodes are kube-proxy's own, and MetalLB's
// controller in the hub, and judges the traffic from a client to addresses of MetalLB,
// and from a Pod of the hub's to ClusterIPs, in both families:
//
//	client, Pod of the hub's ──▶ hub-1 (kube-proxy) ──▶ node-1, node-2 (kube-proxy) ──▶ Pods
//
// All of it needs root, nft, bin/kube and bin/metallb.
package differential
