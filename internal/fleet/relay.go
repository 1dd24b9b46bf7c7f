package fleet

import (
	"io"
	"net"
	"net/netip"
	"sync"
)

// relays pass connections on to addresses of this host. Where nobody listens, a connection is closed at once, and where one
// side ends, so does the other: who is relayed sees what he would see there.
type relays struct {
	mu        sync.Mutex
	closed    bool
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	all       sync.WaitGroup
}

// start relays what a listener accepts.
func (r *relays) start(l net.Listener, to netip.AddrPort) {
	r.mu.Lock()
	r.listeners = append(r.listeners, l)
	r.mu.Unlock()
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.all.Go(func() { r.pass(c, to) })
		}
	})
}

func (r *relays) pass(c net.Conn, to netip.AddrPort) {
	defer r.forget(c)
	if !r.keep(c) {
		return
	}
	d, err := net.Dial("tcp", to.String())
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
			_, _ = io.Copy(way[0], way[1]) // whatever ends it, it has ended
			ended <- struct{}{}
		})
	}
	<-ended
}

// keep returns false after close.
func (r *relays) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.conns == nil {
		r.conns = map[net.Conn]struct{}{}
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *relays) forget(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relays) close() {
	r.mu.Lock()
	r.closed = true
	for _, l := range r.listeners {
		_ = l.Close()
	}
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}
