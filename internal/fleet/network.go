package fleet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Network is the loopback addresses of one demo. Several demos can run on one
// machine: each has a number of its own, 0 for the first.
//
//	127.20.T.N     node N of tenant T (127.(20+number).T.N)
//	127.80.n.0/24  what clients ask for; edge-1 binds it as it is
//	127.81.n.0/24  the same, as edge-2 binds it
type Network struct {
	number int
	claim  net.Listener
}

const (
	networks  = 40
	claimPort = 6442
)

// claimNetwork takes the first network that no other demo has. It is claimed by a
// listening socket, which the kernel frees with this process.
func claimNetwork() (*Network, error) {
	for n := range networks {
		w := &Network{number: n}
		l, err := net.Listen("tcp4", netip.AddrPortFrom(w.Served().Addr().Next(), claimPort).String())
		if err == nil {
			w.claim = l
			return w, nil
		}
	}
	return nil, fmt.Errorf("no network is free: %d demos run on this machine", networks)
}

func (w *Network) release() { _ = w.claim.Close() }

// Served is what the pools' addresses lie in; translated is where edge-2 binds it.
func (w *Network) Served() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 80, byte(w.number), 0}), 24)
}

func (w *Network) Translated() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 81, byte(w.number), 0}), 24)
}

// node is the address of node n of tenant t, both counted from 1.
func (w *Network) node(t, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(20 + w.number), byte(t), byte(n)})
}

// translate is the address under which edge-2 serves a granted address.
func (w *Network) translate(a netip.Addr) netip.Addr {
	b := a.As4()
	b[1] = 81
	return netip.AddrFrom4(b)
}

// manifest is an example with its addresses moved into this network.
func (w *Network) manifest(text string) string {
	return strings.NewReplacer(
		"127.80.0.", fmt.Sprintf("127.80.%d.", w.number),
		"127.20.", fmt.Sprintf("127.%d.", 20+w.number),
	).Replace(text)
}
