// Package clusters reads the Clusters of Cluster API for whoever serves a kind that they refer to: in the version that the hub
// serves, from the API server itself, and only what the API promises. A hub may serve none.
package clusters
