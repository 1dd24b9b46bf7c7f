// Package config holds the CRDs of the Foo Kubernetes Service, generated from the packages below api, and the rights of fks-provider.
package config

import "embed"

// Manifests holds *.yaml.
//
//go:embed *.yaml
var Manifests embed.FS
