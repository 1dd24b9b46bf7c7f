// Package unmanagedcluster says that infrastructure which nobody manages is provisioned, as soon as the Cluster that it is of has an
// endpoint. The Cluster is read from the API server itself; nothing but the status is written.
package unmanagedcluster
