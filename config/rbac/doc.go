// Package rbac turns the manifests of this folder into the identities and
// rights that each of our processes has: hub/ for the hub (manager, proxy, and
// the role that the manager gives to agents), cluster-api/ for a hub that Cluster
// API runs in, tenant/ for a tenant's own cluster (agent). `kubectl apply -k`
// takes the folders as they are. README.md says how an identity is made.
package rbac
