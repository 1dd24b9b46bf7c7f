// Package endpoint brings ClusterEndpoints to the Clusters of Cluster API that they are of, as internal/endpoint decides:
//
//	ClusterEndpoints of a Cluster, ─┐                          ┌─▶ the generated ClusterEndpoint: created, changed or deleted
//	their Services, Cluster ────────┤                          ├─▶ Cluster.spec.controlPlaneEndpoint, in one patch
//	InfraCluster, control plane ────┼─▶ Facts ─▶ Decide ─▶ Plan ┼─▶ InfraCluster, where that must be told
//	kubeconfig Secret, Machines ────┘                          └─▶ the conditions of each ClusterEndpoint
//
// One Cluster at a time, read from the API server itself; the patch fails if it has changed since. Whether an endpoint is in
// use is asked only where another one would be written over it; what can't be read counts as in use. A hub that serves no
// Clusters has nothing to do: its ClusterEndpoints say so. Of Clusters the manager remembers metadata alone.
//
// InfraClusters and control plane objects are of many kinds, and aren't watched: they are read whenever the Cluster's spec or
// a ClusterEndpoint changes, and Cluster API copies what they say to the Cluster's spec. One that is to be told and can't be
// yet is looked at again in a while. So are Services, which may be many; those that are cached for others wake, too.
package endpoint
