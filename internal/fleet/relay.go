package fleet

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// dialTimeout is how long a relay tries to reach what it passes connections on to.
const dialTimeout = 5 * time.Second

// Relay passes connections on to an address of this host, and can be cut. Where nobody listens, a connection is closed at once, and
// where one side ends, so does the other: who is relayed sees what he would see there. While it is cut nothing passes and nothing is
// closed, as when packets are lost: who is on either side sees silence. What was sent meanwhile arrives when it is mended.
// Its methods may be called from several goroutines.
type Relay struct {
	listener net.Listener
	to       netip.AddrPort

	mu     sync.Mutex
	closed bool
	open   chan struct{} // closed: it passes
	conns  map[net.Conn]struct{}
	all    sync.WaitGroup
}

// NewRelay relays what a listener accepts, until Close, which closes that too.
func NewRelay(l net.Listener, to netip.AddrPort) *Relay {
	r := &Relay{listener: l, to: to, open: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(r.open)
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.pass(c) })
		}
	})
	return r
}

// Cut lets nothing pass, until Mend.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
		if !r.closed {
			r.open = make(chan struct{})
		}
	default: // it is cut
	}
}

// Mend lets all pass again.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mend()
}

// mend is Mend; r.mu is held.
func (r *Relay) mend() {
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

// Kubeconfig writes another form of a kubeconfig to a path: it goes by this relay.
func (r *Relay) Kubeconfig(of, path string) error {
	c, err := clientcmd.LoadFromFile(of)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", of, err)
	}
	for _, cluster := range c.Clusters {
		cluster.Server = "https://" + r.listener.Addr().String()
		cluster.TLSServerName = r.to.Addr().String()
	}
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}

// Close ends it with all its connections.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.mend()
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

func (r *Relay) pass(c net.Conn) {
	defer r.forget(c)
	if !r.keep(c) {
		return
	}
	<-r.gate()
	d, err := net.DialTimeout("tcp", r.to.String(), dialTimeout)
	if err != nil {
		return
	}
	defer r.forget(d)
	if !r.keep(d) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
		r.all.Go(func() {
			_, _ = io.Copy(gated{way[0], r}, way[1]) // whatever ends it, it has ended
			ended <- struct{}{}
		})
	}
	<-ended
	<-r.gate()
}

// gated writes once the relay passes.
type gated struct {
	net.Conn
	relay *Relay
}

func (g gated) Write(b []byte) (int, error) {
	<-g.relay.gate()
	return g.Conn.Write(b)
}

func (r *Relay) gate() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// keep returns false after Close.
func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.conns[c] = struct{}{}
	}
	return !r.closed
}

func (r *Relay) forget(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
