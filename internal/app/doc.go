// Package app turns options into running processes: one composition root for
// each subcommand, and registry.go, the one place that names all
// implementations of the seams.
package app
