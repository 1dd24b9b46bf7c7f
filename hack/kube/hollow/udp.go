package hollow

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"k8s.io/kubernetes/pkg/proxy"
)

const (
	// flowIdle is conntrack's bound for a UDP flow that was answered.
	flowIdle = 2 * time.Minute
	// sweepFlows is how many flows there are at least when those that ended are looked for.
	sweepFlows = 1024
)

// udpSocket answers datagrams with the endpoint that their flow has, as conntrack keeps it for kube-proxy: a flow goes to
// another endpoint only when its own is gone.
type udpSocket struct {
	*net.UDPConn
	flows map[netip.AddrPort]udpFlow // by client; serve's goroutine only
	sweep int                        // when there are that many
}

type udpFlow struct {
	endpoint string
	last     time.Time
}

func (s *udpSocket) serve(n *nodePort) {
	in := make([]byte, 64<<10)
	for {
		size, client, err := s.ReadFromUDPAddrPort(in)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // an earlier answer could not be delivered
		}
		client = netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
		to := s.choose(n, client, time.Now())
		p := n.pods.at(to.IP())
		if p == nil {
			continue
		}
		if out := p.answer(client, to.Port(), in[:size]); out != nil {
			// An error here is the client's going away.
			_, _ = s.WriteToUDPAddrPort(out, client)
		}
	}
}

func (s *udpSocket) choose(n *nodePort, client netip.AddrPort, now time.Time) proxy.Endpoint {
	if f, ok := s.flows[client]; ok && now.Sub(f.last) < flowIdle {
		if e := n.endpoint(f.endpoint); e != nil {
			s.flows[client] = udpFlow{f.endpoint, now}
			return e
		}
	}
	if len(s.flows) >= max(s.sweep, sweepFlows) {
		for c, f := range s.flows {
			if now.Sub(f.last) >= flowIdle {
				delete(s.flows, c)
			}
		}
		s.sweep = 2 * len(s.flows)
	}
	e := n.choose(client.Addr(), now)
	s.flows[client] = udpFlow{e.String(), now}
	return e
}

// endpoint finds one among those of the present, or nil.
func (n *nodePort) endpoint(name string) proxy.Endpoint {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.backends {
		if e.String() == name {
			return e
		}
	}
	return nil
}
