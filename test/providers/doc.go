// Package providers runs the example providers as they are installed: each a process of its own with the rights of its own
// ServiceAccount, beside the manager, on a hub that has Cluster API's kinds.
package providers
