// Package install installs Fairlead as config/ and docs/installing.md say: the manifests are rendered by kustomize, applied to
// real API servers, and what they start is started as they say, under the identities and rights that they give, with
// this machine's addresses and folders in place of a Pod's. What config/prometheus and config/dashboard ask is held to
// what these processes show.
package install
