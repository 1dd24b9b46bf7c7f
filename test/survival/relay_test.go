package survival

import (
	"net"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/fleet"
)

// startRelay lives as long as the test.
func startRelay(t *testing.T, at, to netip.AddrPort) *fleet.Relay {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	must(t, err)
	r := fleet.NewRelay(l, to)
	t.Cleanup(r.Close)
	return r
}
