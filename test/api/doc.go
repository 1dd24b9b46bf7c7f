// Package api holds the kinds to what docs/api.md and the proposals say of
// them, on a real API server: which manifests it takes, which it refuses and in
// which words, what it prints in its tables.
package api
