// Package unmanagedcluster says that infrastructure which nobody manages is provisioned, as soon as the Cluster that it is of has an
// endpoint, or a control plane that somebody else runs, who makes the endpoint. Cluster and control plane are read from the API server itself;
// nothing but the status is written.
package unmanagedcluster
