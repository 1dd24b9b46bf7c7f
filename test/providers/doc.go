// Package providers runs the example providers as they are installed: each a process of its own with the rights of its own
// ServiceAccount, beside the manager, on a hub that has Cluster API's kinds; and has what the proposals print do there what they say.
package providers
