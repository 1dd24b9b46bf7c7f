package hollow

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy"
)

// nodePort is a socket and the endpoints that its connections or datagrams go to.
type nodePort struct {
	number uint16
	socket interface {
		serve(*nodePort)
		Close() error
	}
	pods podFinder

	mu       sync.Mutex
	backends []proxy.Endpoint // never empty, never changed in place
	affinity time.Duration
	sticky   map[netip.Addr]stickyChoice
}

// stickyChoice remembers a client's endpoint; as with kube-proxy, each new
// connection starts its time anew.
type stickyChoice struct {
	endpoint string
	last     time.Time
}

func openNodePort(protocol v1.Protocol, at netip.AddrPort, pods podFinder) (*nodePort, error) {
	n := &nodePort{number: at.Port(), pods: pods, sticky: map[netip.Addr]stickyChoice{}}
	if protocol == v1.ProtocolUDP {
		c, err := net.ListenUDP(network("udp", at.Addr()), net.UDPAddrFromAddrPort(at))
		n.socket = &udpSocket{UDPConn: c, flows: map[netip.AddrPort]udpFlow{}}
		return n, err
	}
	l, err := net.ListenTCP(network("tcp", at.Addr()), net.TCPAddrFromAddrPort(at))
	n.socket = tcpSocket{l}
	return n, err
}

// network is the name of a protocol's sockets of an address's family.
func network(protocol string, a netip.Addr) string {
	if a.Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}

// use sets where new connections go.
func (n *nodePort) use(backends []proxy.Endpoint, affinity time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.backends, n.affinity = backends, affinity
	if affinity == 0 {
		clear(n.sticky)
	}
}

// serve works until the port is closed.
func (n *nodePort) serve() { n.socket.serve(n) }

type tcpSocket struct{ *net.TCPListener }

func (s tcpSocket) serve(n *nodePort) {
	for {
		c, err := s.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// Out of files, most likely: let some close.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		client := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		to := n.choose(client, time.Now())
		if p := n.pods.at(to.IP()); p == nil || !p.offer(c, to.Port()) {
			reset(c)
		}
	}
}

// choose picks an endpoint at random, as kube-proxy does, or the client's own one.
func (n *nodePort) choose(client netip.Addr, now time.Time) proxy.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.affinity == 0 {
		return n.backends[rand.IntN(len(n.backends))]
	}
	if choice, ok := n.sticky[client]; ok && now.Sub(choice.last) < n.affinity {
		for _, e := range n.backends {
			if e.String() == choice.endpoint {
				n.sticky[client] = stickyChoice{choice.endpoint, now}
				return e
			}
		}
	}
	e := n.backends[rand.IntN(len(n.backends))]
	n.sticky[client] = stickyChoice{e.String(), now}
	return e
}

// close ends listening; connections that were handed over live on.
func (n *nodePort) close() { _ = n.socket.Close() }

// reset ends a connection with RST, what a client of a closed port sees.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
