// Package externalcontrolplane sees whether control planes that somebody else runs can be reached, and says so as Cluster API's
// contract for control planes asks:
//
//	ExternalControlPlane ─┐                 ┌─▶ Held, remembered ─┐
//	its Cluster ──────────┼─▶ rounds ─▶ probe: Secret, /version,  ├─▶ judge ─▶ status, in one write, if it differs
//	                      │            namespace kube-system      │
//	                      └───────────────────────────────────────┘
//
// Each control plane has a round of its own, which asks again after a while, with jitter: one that is slow or frozen holds up no
// other, and no worker. A probe is bounded in time and in what it reads, and leaves no connection; it follows no redirect, and
// takes no kubeconfig that names a file or a program of this machine or a proxy, or trusts whoever answers. One that fails where
// the last one didn't is repeated at once before it is believed. What the hub doesn't answer says nothing of a control plane.
//
// Nothing is remembered that a restart would miss: which cluster was reached first is in status, and may be said in spec.
package externalcontrolplane
