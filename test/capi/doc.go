// Package capi holds our load balancers of control planes to Cluster API itself: its core, kubeadm's bootstrap and control plane,
// and infrastructure in memory, as released, as plain processes beside our manager and a proxy.
//
//	                     hub (etcd, API server, garbage collector)
//	                      ▲            ▲              ▲
//	Cluster API's four ───┘   manager ─┘       a proxy ◀── Cluster API, visitors: all that reach the control plane
//	programs                                  │
//	   ▲                                      ├─▶ front of Machine 1 ─┐
//	   └── in-memory API server and etcd ◀────┼─▶ front of Machine 2 ─┤
//	       of the workload cluster            └─▶ front of Machine 3 ─┘
//
// The in-memory infrastructure has one listener for all API servers of a workload cluster, and no addresses. So the cloud of this package
// gives each Machine an address and, as long as its API server lives, a front there, which can fall silent and crash. One
// whose member of etcd is removed falls silent, and refuses once its Machine's infrastructure is gone.
//
// In the proxy's place others serve, too: foo-provider, whose cloud needs 5 s to apply members, and the hub's Services, by the real kube-proxy
// and addresses that aren't loopback's.
//
// Stories are told of such a control plane: it is rolled out, scaled, loses a member, and so on, while a visitor connects every 40 ms (-every) and
// holds watches. Each is told of one data plane, the rollout of each, and also where Machines aren't held, to see that requests are lost there: behind
// foo-provider they are drained then, and elsewhere taken out when they are gone. The flag -all has all of them be told of each (make bench-capi), and
// more of how Machines are held. A table of what was lost ends them, with how soon endpoints were published. At last managers leave for good.
//
// Cluster API's programs listen on all interfaces and at ports that nobody can choose: the test runs itself again in a network
// namespace that leads nowhere. It needs root, bin/kube, bin/capi and bin/clusterctl (make test-capi), which is why it is a module of
// its own.
package capi
