// Command kube turns upstream Kubernetes and etcd, as Go modules, into a control plane
// with nodes that runs as plain processes of one binary: no container, no root, no
// download. Demo and tests start it through internal/testkit.
//
//	kube etcd            one member, for a kube-apiserver beside it
//	kube kube-apiserver  the real command, version 1.37.2
//	kube controllers     the controllers of kube-controller-manager that are needed
//	                     here, and a scheduler of a hundred lines
//	kube hollow-nodes    Nodes, Pods and NodePorts on loopback addresses (package hollow)
//	kube kube-proxy      the real command: as root, in a node's network namespace
//
// README.md says what building costs and which traps there are.
package main
