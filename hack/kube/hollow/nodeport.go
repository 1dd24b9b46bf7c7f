package hollow

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/proxy"
)

// nodePort is a listening socket and the endpoints that its connections go to.
type nodePort struct {
	number   uint16
	listener *net.TCPListener
	pods     podFinder

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

func openNodePort(at netip.AddrPort, pods podFinder) (*nodePort, error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	return &nodePort{number: at.Port(), listener: l, pods: pods, sticky: map[netip.Addr]stickyChoice{}}, nil
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

// serve accepts until the port is closed.
func (n *nodePort) serve() {
	for {
		c, err := n.listener.AcceptTCP()
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
func (n *nodePort) close() { _ = n.listener.Close() }

// reset ends a connection with RST, what a client of a closed port sees.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
