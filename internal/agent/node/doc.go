// Package node turns a tenant's Nodes into the targets that all its Services share:
//
//	Node ── Target ──▶ Target, or why it is none
//	Targets, Doomed ── Spare ──▶ the same, none draining for ever
//	Targets, groups in the hub ── Place ──▶ nodes-0, nodes-1, … (at most 100 targets each)
//	what the Nodes answered ── Checking ──▶ whether kube-proxy's health is asked, or the nodePorts
//
// Pure. A Node is no target while it is being deleted, is labelled
// node.kubernetes.io/exclude-from-external-load-balancers (a value that parses as false counts as
// no label, as in k8s.io/cloud-provider), or has no address. It drains, open connections live on, with the
// cluster autoscaler's taint or the annotation loadbalancer.cluster.x-k8s.io/disabled. A cordon
// changes nothing. A Node that is not Ready stays: health checks judge it, and `ready` says so
// for outputs that have none.
package node
