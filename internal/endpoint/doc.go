// Package endpoint turns what is known of a Cluster's endpoint into who is to be told which:
//
//	people ─▶ (Service ─▶) ClusterEndpoint ──────────┐
//	provider kind ─▶ LoadBalancer ─▶ (generated one) ─┼─▶ Cluster.spec.controlPlaneEndpoint ─▶ InfraCluster, where it must be told
//	people, Cluster API ─▶ Cluster ─▶ (generated one) ┘        │
//	                                                           └─▶ LoadBalancer.spec.endpoint ─▶ provider kind
//
// It is pure. The rules are those of two proposals for Cluster API, on a Cluster API that knows neither:
//
//   - Generic kinds take precedence over infrastructure (load balancer proposal, "pushing and pulling"): what a Cluster says
//     fills an empty LoadBalancer, and that the provider kind, before that does anything outside. What nobody has said is
//     pulled up. A Cluster and its LoadBalancer that differ are an error; a LoadBalancer and its provider kind are settled by
//     the LoadBalancer until there is something outside.
//   - A ClusterEndpoint that somebody made takes precedence over what an InfraCluster says (flexible managed endpoints). Where
//     there is none, one is generated that mirrors the Cluster, owned by what the endpoint came from; it goes when another comes.
//     A lone ClusterEndpoint is primary, whatever its type; of several the one that says so.
//   - The endpoint is surfaced as soon as its frontend exists, before any member is healthy: a control plane's first Machine
//     waits for it.
//   - Once a kubeconfig or a Machine was made from an endpoint, another one is never written silently: both are named, and
//     somebody says by annotation that the other is meant. An endpoint is in certificates, kubeconfigs and kubelets' files.
//   - Host and port go together: Cluster API wipes a half endpoint.
package endpoint
