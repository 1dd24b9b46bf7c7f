// Package endpoint brings ClusterEndpoints to the Clusters of Cluster API that they are of, as internal/endpoint decides:
//
//	ClusterEndpoints of a Cluster ┐                         ┌─▶ the generated ClusterEndpoint: created, changed or deleted
//	Cluster ──────────────────────┼─▶ Facts ─▶ Decide ─▶ Plan ─▶ Cluster.spec.controlPlaneEndpoint, in one patch
//	kubeconfig Secret, Machines ──┘                         └─▶ the condition Surfaced of each
//
// One Cluster at a time, read from the API server itself; the patch fails if it has changed since. Whether an endpoint is in
// use is asked only where another one would be written over it; what can't be read counts as in use. A hub that serves no
// Clusters has nothing to do: its ClusterEndpoints say so. Of Clusters the manager remembers metadata alone.
//
// What an InfraCluster or a control plane object says isn't read yet, nor what a LoadBalancer is granted.
package endpoint
