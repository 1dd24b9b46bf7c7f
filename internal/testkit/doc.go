// Package testkit turns the `kube` binary (hack/kube) into real control planes with
// hollow nodes, for tests, benchmarks and `fairlead demo`, and supervises processes.
//
//	Options ──Start──▶ ControlPlane: etcd, kube-apiserver, controllers as processes
//	NodeSpec ─StartNodes──▶ hollow Nodes, Pods and NodePorts, one process a control plane
//	KubeProxy ─StartKubeProxy──▶ the real kube-proxy of one Node, in a network namespace
//	Command ──StartProcess──▶ Process: signals, pause, restart, log tail
//
// Everything of one control plane listens on one /24 of loopback addresses of its own
// (.1 API server and etcd, from .11 nodes), on the usual ports, so that control planes
// start side by side without a search for free ports. Linux only, like the addresses.
//
// Every process is killed by the kernel when the process that started it ends, however
// it ends (see deathsig_linux.go). Stop is for the orderly end.
//
// Nothing here imports testing; package kubetest beside it is the glue for tests.
package testkit
