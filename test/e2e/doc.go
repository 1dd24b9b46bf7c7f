// Package e2e tests the whole: real API servers, real processes, real traffic.
package e2e
