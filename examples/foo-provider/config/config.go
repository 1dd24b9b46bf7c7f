// Package config holds the CRD of FooLoadBalancer, generated from package api, and the rights of foo-provider.
package config

import "embed"

// Manifests holds *.yaml.
//
//go:embed *.yaml
var Manifests embed.FS
