// Package capi holds our load balancers of control planes to Cluster API itself: its core, kubeadm's bootstrap and control plane,
// and infrastructure in memory, as released, as plain processes beside our manager and a proxy.
//
//	                     hub (etcd, API server, garbage collector)
//	                      ▲            ▲              ▲
//	Cluster API's four ───┘   manager ─┘   proxy edge-1 ◀── Cluster API, kubelets, visitors: all that reach the control plane
//	programs                                  │
//	   ▲                                      ├─▶ front of Machine 1 ─┐
//	   └── in-memory API server and etcd ◀────┼─▶ front of Machine 2 ─┤
//	       of the workload cluster            └─▶ front of Machine 3 ─┘
//
// The in-memory infrastructure has one listener for all API servers of a workload cluster, and no addresses. So the cloud of this package
// gives each Machine an address and, as long as its API server lives, a front there, which can crash, fall silent and refuse.
//
// Cluster API's programs listen on all interfaces and at ports that nobody can choose: the test runs itself again in a network
// namespace that has nothing but loopback. It needs root, bin/kube and bin/capi (make test-capi), which is why it is a module of
// its own.
package capi
