package fleet

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Network is the addresses of one demo: on loopback, or in network namespaces of its own.
//
// On loopback, several demos can run on one machine: each has a number of its own, 0 for the first.
//
//	127.20.T.N     node N of tenant T (127.(20+number).T.N)
//	127.80.n.0/24  what clients ask for; edge-1 binds it as it is
//	127.81.n.0/24  the same, as edge-2 binds it
//	127.20.255.P   proxy P's host
//	127.192.0.0/17, 127.192.128.0/17, 127.194.0.0/17 … likewise, for those who need many; edge-2 binds them in 127.193 …
//
// In namespaces the same begins with 10 and there is IPv6 (see world):
//
//	10.20.T.N, fd00:20:T::N   node N of tenant T
//	10.80.0.0/24, fd00:80::   what clients ask for, of each proxy
//	10.91.P.1                 proxy P's host
type Network struct {
	number int
	claim  net.Listener
	world  *world // nil: on loopback
}

// IPv6 of demos in namespaces.
var (
	served6 = netip.MustParsePrefix("fd00:80::/120")
	nodes6  = netip.MustParsePrefix("fd00:20::/32")
)

const (
	networks  = 16
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

func (w *Network) release() {
	if w.world != nil {
		w.world.close()
		return
	}
	_ = w.claim.Close()
}

// first is the first byte of all addresses.
func (w *Network) first() byte {
	if w.world != nil {
		return 10
	}
	return 127
}

// Served is what the examples' addresses lie in.
func (w *Network) Served() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{w.first(), 80, byte(w.number), 0}), 24)
}

// node is the address of node n of tenant t, both counted from 1.
func (w *Network) node(t, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{w.first(), byte(20 + w.number), byte(t), byte(n)})
}

// proxy is the address of a proxy's host, counted from 1, as clients reach it.
func (w *Network) proxy(number int) netip.Addr {
	if w.world != nil {
		return netip.AddrFrom4([4]byte{w.first(), 91, byte(number), 1})
	}
	return netip.AddrFrom4([4]byte{w.first(), byte(20 + w.number), 255, byte(number)})
}

// node6 is its IPv6 address; the zero value: it has none.
func (w *Network) node6(t, n int) netip.Addr {
	if w.world == nil {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x20, 0, byte(t), 15: byte(n)})
}

// Wide is a range of 32,768 addresses that no example uses; edge-2 binds it where the second byte is one more.
func (w *Network) Wide() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{w.first(), byte(192 + w.number/2*2), byte(w.number % 2 * 128), 0}), 17)
}

// translate is the address under which edge-2 serves a granted address.
func (w *Network) translate(a netip.Addr) netip.Addr {
	b := a.As4()
	b[1]++
	return netip.AddrFrom4(b)
}

// bindAs are edge-2's flags for that.
func (w *Network) bindAs() []string {
	flags := []string{}
	for _, p := range []netip.Prefix{w.Served(), w.Wide()} {
		flags = append(flags, fmt.Sprintf("--bind-as=%s=%s", p, netip.PrefixFrom(w.translate(p.Addr()), p.Bits())))
	}
	return flags
}

// manifest is an example with its addresses moved into this network.
func (w *Network) manifest(text string) string {
	return strings.NewReplacer(
		"127.80.0.", fmt.Sprintf("%d.80.%d.", w.first(), w.number),
		"127.20.", fmt.Sprintf("%d.%d.", w.first(), 20+w.number),
	).Replace(text)
}
