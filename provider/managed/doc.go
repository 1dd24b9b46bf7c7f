// Package managed is for Cluster API providers whose cloud has managed control planes: what a controller of an InfraCluster or of a
// control plane asks of the Cluster that owns its object, and how it says at which endpoint the control plane is reached.
//
//	owner reference ──▶ Of ──▶ Cluster ──▶ Holds, InfrastructureProvisioned, Endpoint
//	                                                  │ as the scenario asks
//	the cloud's endpoint ──▶ Publish ──▶ ClusterEndpoint ──▶ Cluster.spec.controlPlaneEndpoint, by Fairlead's manager
//
// Who waits for what, and who publishes, is in docs/providers-of-clusters.md. Nothing here writes a Cluster.
package managed
