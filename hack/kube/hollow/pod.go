package hollow

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settle is how long a terminating Pod still takes new connections, so that the
// word that it ends reaches every node and load balancer first.
const settle = 3 * time.Second

// maxDatagramEcho is how much of a datagram comes back, in bytes.
const maxDatagramEcho = 512

// pod is a running Pod: an HTTP server whose connections, and an echo whose datagrams, the NodePorts hand over.
type pod struct {
	key  types.NamespacedName
	uid  types.UID
	ips  []netip.Addr // IPv4 first
	node *podNode
	who  Answer
	// ports that it listens on; empty: all.
	ports map[podPort]bool
	// preStop is how long its containers sleep before they are told to end.
	preStop time.Duration

	conns  *handoff
	server *http.Server
	held   *heldConns

	once  sync.Once     // guards the start of the termination
	death chan struct{} // closed by kill
	kills sync.Once
	end   chan struct{} // closed when the termination is through
}

type podPort struct {
	protocol v1.Protocol
	number   int
}

func startPod(cluster string, obj *v1.Pod, ips []netip.Addr, node *podNode) *pod {
	p := &pod{
		key:   types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name},
		uid:   obj.UID,
		ips:   ips,
		node:  node,
		who:   Answer{Cluster: cluster, Namespace: obj.Namespace, Pod: obj.Name, PodIP: ips[0].String(), Node: node.name},
		ports: map[podPort]bool{},
		conns: newHandoff(),
		held:  newHeldConns(),
		death: make(chan struct{}),
		end:   make(chan struct{}),
	}
	for _, c := range obj.Spec.Containers {
		for _, port := range c.Ports {
			p.ports[podPort{cmp.Or(port.Protocol, v1.ProtocolTCP), int(port.ContainerPort)}] = true
		}
		if l := c.Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
			p.preStop = max(p.preStop, time.Duration(l.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	p.server = &http.Server{
		Handler:           newEcho(p.who, p.held),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that go away are no news
	}
	go func() {
		// Always ErrServerClosed, as the listener fails only when it is closed.
		_ = p.server.Serve(p.conns)
	}()
	return p
}

func (p *pod) listens(protocol v1.Protocol, port int) bool {
	return len(p.ports) == 0 || p.ports[podPort{protocol, port}]
}

// offer hands a connection over. It returns false if this Pod does not listen on
// the port or has stopped listening; the connection is then still the caller's.
func (p *pod) offer(c *net.TCPConn, port int) bool {
	if !p.listens(v1.ProtocolTCP, port) {
		return false
	}
	return p.conns.offer(&podConn{TCPConn: c, local: &net.TCPAddr{IP: p.ips[0].AsSlice(), Port: port}})
}

// answer is what it says to a datagram; nil if it doesn't listen on the port or has stopped listening.
func (p *pod) answer(client netip.AddrPort, port int, datagram []byte) []byte {
	if !p.listens(v1.ProtocolUDP, port) || p.conns.isClosed() {
		return nil
	}
	a := p.who
	a.Client, a.Port, a.Method, a.Path = client.String(), port, "UDP", string(datagram[:min(len(datagram), maxDatagramEcho)])
	b, err := json.Marshal(a)
	if err != nil {
		return nil
	}
	return b
}

// terminate begins, once, what the end of a Pod begins: after the preStop hook's sleep, what SIGTERM
// begins in a well-behaved container: it listens for a while, then lets open requests and held connections
// end until the grace period is over, then cuts. It returns at once; done is called at the end.
func (p *pod) terminate(grace time.Duration, done func()) {
	p.once.Do(func() {
		go func() {
			defer done()
			defer close(p.end)
			defer p.kill()
			ctx, cancel := context.WithTimeout(context.Background(), grace)
			defer cancel()
			listen := time.NewTimer(p.preStop + settle)
			defer listen.Stop()
			select {
			case <-listen.C:
			case <-ctx.Done():
			case <-p.death:
			}
			// An error says that time is over; kill cuts what is left.
			_ = p.server.Shutdown(ctx)
			select {
			case <-p.held.none():
			case <-ctx.Done():
			case <-p.death:
			}
		}()
	})
}

// ended tells whether a termination is through.
func (p *pod) ended() bool {
	select {
	case <-p.end:
		return true
	default:
		return false
	}
}

// kill closes everything at once.
func (p *pod) kill() {
	p.kills.Do(func() {
		close(p.death)
		_ = p.server.Close()
		p.held.closeAll()
	})
}

// handoff is a net.Listener whose connections were accepted elsewhere.
type handoff struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandoff() *handoff {
	return &handoff{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handoff) isClosed() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

func (h *handoff) offer(c net.Conn) bool {
	if h.isClosed() {
		return false
	}
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handoff) Addr() net.Addr { return &net.TCPAddr{} }

// podConn shows a Pod its own address as the local one, as after kube-proxy's DNAT.
type podConn struct {
	*net.TCPConn
	local net.Addr
}

func (c *podConn) LocalAddr() net.Addr { return c.local }
