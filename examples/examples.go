// Package examples embeds the manifests of this folder, which the demo applies.
// The folders below show other things and are not embedded.
package examples

import "embed"

// Manifests holds *.yaml: hub.yaml for the hub, the others for tenant clusters.
//
//go:embed *.yaml
var Manifests embed.FS
