// Package providertest is the suite that every provider is to pass: it starts the provider's controller against an API
// server, plays the part of the manager and of the cluster's people, and looks at what comes of it outside, through
// the provider's own Describe. Faults are put between the controller and the provider, so no provider needs any of its own.
//
//	func TestFoo(t *testing.T) {
//		providertest.Suite{Config: cfg, Options: foo.Options(cloud), New: …, Members: …}.Run(t)
//	}
package providertest
