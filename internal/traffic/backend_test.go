package traffic

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// backend answers as a hollow Pod does.
type backend struct {
	address netip.AddrPort
	server  *http.Server

	mu   sync.Mutex
	held []net.Conn
}

func newBackend(t *testing.T, who Identity) *backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	b := &backend{address: l.Addr().(*net.TCPAddr).AddrPort(), server: &http.Server{Handler: mux}}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(Answer{Identity: who, Client: r.RemoteAddr})
	})
	mux.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		b.mu.Lock()
		b.held = append(b.held, conn)
		b.mu.Unlock()
		if json.NewEncoder(rw).Encode(Answer{Identity: who}) == nil && rw.Flush() == nil {
			_, _ = io.Copy(conn, rw)
		}
	})
	go func() { _ = b.server.Serve(l) }()
	t.Cleanup(b.close)
	return b
}

// close closes the listener and what the server knows of; held connections live on.
func (b *backend) close() { _ = b.server.Close() }

// cut ends the held connections and returns how many there were.
func (b *backend) cut() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.held {
		_ = c.Close()
	}
	return len(b.held)
}

// forward is a load balancer without retry and without health checks: it
// hands each connection to the next backend, and hangs up if that one refuses.
func forward(t *testing.T, backends ...*backend) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	next := atomic.Uint32{}
	go func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer down.Close()
				up, err := net.Dial("tcp", backends[int(next.Add(1))%len(backends)].address.String())
				if err != nil {
					return
				}
				defer up.Close()
				go func() {
					_, _ = io.Copy(up, down)
					up.Close()
				}()
				_, _ = io.Copy(down, up)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}
