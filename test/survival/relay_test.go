package survival

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// relay is a way to an address that can be cut. While it is cut nothing passes and nothing is closed, as when packets are lost:
// who is on either side sees silence. What was sent meanwhile arrives when it is mended.
type relay struct {
	listener net.Listener
	to       netip.AddrPort

	mu    sync.Mutex
	open  chan struct{} // closed: it passes
	conns map[net.Conn]struct{}
	all   sync.WaitGroup
}

// startRelay lives as long as the test.
func startRelay(t *testing.T, at, to netip.AddrPort) *relay {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	must(t, err)
	r := &relay{listener: l, to: to, open: make(chan struct{}), conns: map[net.Conn]struct{}{}}
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
	t.Cleanup(r.close)
	return r
}

func (r *relay) pass(c net.Conn) {
	defer r.forget(c)
	r.keep(c)
	<-r.gate()
	d, err := net.DialTimeout("tcp", r.to.String(), 5*time.Second)
	if err != nil {
		return
	}
	defer r.forget(d)
	r.keep(d)
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
		r.all.Go(func() {
			_, _ = io.Copy(gated{way[0], r}, way[1]) // whatever ends it, it has ended
			ended <- struct{}{}
		})
	}
	<-ended
}

// gated writes once the relay passes.
type gated struct {
	net.Conn
	relay *relay
}

func (g gated) Write(b []byte) (int, error) {
	<-g.relay.gate()
	return g.Conn.Write(b)
}

func (r *relay) gate() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = make(chan struct{})
}

func (r *relay) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

func (r *relay) keep(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[c] = struct{}{}
}

func (r *relay) forget(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.mend()
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

// kubeconfig writes another form of a kubeconfig, which goes by this relay, and returns its path.
func (r *relay) kubeconfig(t *testing.T, of string) string {
	t.Helper()
	c, err := clientcmd.LoadFromFile(of)
	must(t, err)
	for _, cluster := range c.Clusters {
		cluster.Server = "https://" + r.listener.Addr().String()
		cluster.TLSServerName = r.to.Addr().String()
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*c, path))
	return path
}
