package testkit

import (
	"net/netip"
	"time"
)

// readyTimeout is how long a control plane may take to start. It takes 2 to 3 s; on
// a machine that is busy building, 30 s have been seen.
const readyTimeout = 60 * time.Second

// Options of a control plane. The zero value is good.
type Options struct {
	// Name in files, logs and the answers of hollow Pods. Default: kube.
	Name string
	// Dir for data, keys, logs and kubeconfigs. Default: a new temporary directory,
	// removed by Stop. A given one must be empty or absent, and stays.
	Dir string
	// Subnet, a /24 within 127.0.0.0/8. Default: a free one. See ControlPlane.Subnet.
	Subnet netip.Prefix
	// KubeBinary is the path of the kube binary; see KubeBinary for the default.
	KubeBinary string
	// NodesHost runs the nodes; the API server must be reachable from there at its own address. Default: this host.
	NodesHost Host
	// Audit writes one line a write request to ControlPlane.AuditLog.
	Audit bool
	// DualStack gives Services and Pods IPv6 addresses too, for nodes that have them.
	DualStack bool
	// PriorityAndFairness and Quota (ResourceQuota and LimitRanger, with the controller
	// that counts) cost CPU and memory, and are for the tests of fair shares.
	PriorityAndFairness bool
	Quota               bool
	// PodSecurity has the API server refuse Pods that their namespace's labels pod-security.kubernetes.io/… forbid.
	PodSecurity bool
	// APIServerFlags come after our own, and win over them.
	APIServerFlags []string
	// ControllerFlags likewise, for `kube controllers`.
	ControllerFlags []string
}

// NodeSpec is one hollow node.
type NodeSpec struct {
	Name string
	// Address is a loopback address that nobody else uses, or one that the nodes' host has. Default: the next one of
	// the control plane's subnet, from .11.
	Address netip.Addr
	// Address6 is its IPv6 address, for a control plane that is DualStack. Default: none.
	Address6 netip.Addr
	// Zone becomes the label topology.kubernetes.io/zone, if not empty.
	Zone string
}
