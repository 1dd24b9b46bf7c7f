// Package dataplane is the seam between the model and whatever carries
// traffic: a Dataplane turns an lb.Program into running configuration on this
// host, and says what goes on there. Implementations are in the folders below,
// and named in internal/app/registry.go alone.
package dataplane
