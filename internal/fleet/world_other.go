//go:build !linux

package fleet

import (
	"errors"
	"net/netip"

	"fairlead.dev/fairlead/internal/testkit"
	"fairlead.dev/fairlead/internal/traffic"
)

// world is the network namespaces of one demo: there are none but on Linux.
type world struct{}

func newWorld(int) (*Network, error) { return nil, errors.New("network namespaces need Linux") }

func (*world) close()                     {}
func (*world) nodesHost() testkit.Host    { return nil }
func (*world) proxyHost(int) testkit.Host { return nil }
func (*world) dialProxy(int) traffic.Dial { return nil }
func (*world) clientsPath(int) string     { return "" }
func (*world) relayToNodes(netip.AddrPort) (*Relay, error) {
	return nil, errors.New("network namespaces need Linux")
}
func (*world) relayToProxy(int, netip.AddrPort) (*Relay, error) {
	return nil, errors.New("network namespaces need Linux")
}
