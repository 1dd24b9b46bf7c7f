package hollow

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Answer says which Pod answered whom. It is the JSON body of every answer; the
// headers X-Cluster, X-Namespace, X-Pod and X-Node repeat the first part.
//
//	GET /hold                  101: one Answer in a line, then each byte sent comes back,
//	                           until the client closes its side or the Pod ends
//	GET /stream?every=100ms    one Answer a line, for as long as the client reads
//	anything else              one Answer
//
// A datagram is answered with one Answer, without a line's end, in a datagram: its method is UDP and its path what came.
type Answer struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"` // its host name
	PodIP     string `json:"podIP"`
	Node      string `json:"node"`
	Port      int    `json:"port"` // of the Pod
	// Client is the address and port that the Pod saw.
	Client string `json:"client"`
	Host   string `json:"host"` // as the client named it
	Method string `json:"method"`
	Path   string `json:"path"`
}

type echo struct {
	who  Answer
	held *heldConns
}

func newEcho(who Answer, held *heldConns) http.Handler {
	e := &echo{who: who, held: held}
	mux := http.NewServeMux()
	mux.HandleFunc("/", e.once)
	mux.HandleFunc("/hold", e.hold)
	mux.HandleFunc("/stream", e.stream)
	return mux
}

func (e *echo) answer(w http.ResponseWriter, r *http.Request) Answer {
	a := e.who
	a.Client, a.Host, a.Method, a.Path = r.RemoteAddr, r.Host, r.Method, r.URL.Path
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		a.Port = local.Port
	}
	h := w.Header()
	h.Set("X-Cluster", a.Cluster)
	h.Set("X-Namespace", a.Namespace)
	h.Set("X-Pod", a.Pod)
	h.Set("X-Node", a.Node)
	return a
}

func (e *echo) once(w http.ResponseWriter, r *http.Request) {
	a := e.answer(w, r)
	w.Header().Set("Content-Type", "application/json")
	// An error here is the client's going away.
	_ = json.NewEncoder(w).Encode(a)
}

func (e *echo) stream(w http.ResponseWriter, r *http.Request) {
	a := e.answer(w, r)
	every, err := time.ParseDuration(r.FormValue("every"))
	if err != nil || every < time.Millisecond {
		every = 100 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	flush := http.NewResponseController(w)
	for {
		if json.NewEncoder(w).Encode(a) != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		}
	}
}

func (e *echo) hold(w http.ResponseWriter, r *http.Request) {
	a := e.answer(w, r)
	h := w.Header()
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if !e.held.add(conn) {
		return
	}
	defer e.held.remove(conn)
	if json.NewEncoder(rw).Encode(a) == nil && rw.Flush() == nil {
		echoBytes(conn, rw.Reader)
	}
}

// echoBytes sends back what comes, what was read ahead included.
func echoBytes(conn net.Conn, ahead *bufio.Reader) {
	if _, err := io.CopyN(conn, ahead, int64(ahead.Buffered())); err == nil {
		// Not io.Copy between sockets: splice would cost two more files a connection.
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if n > 0 {
				if _, err := conn.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// heldConns are connections that the HTTP server does not know any more.
type heldConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	waits  []chan struct{}
}

func newHeldConns() *heldConns { return &heldConns{conns: map[net.Conn]bool{}} }

// add returns false after closeAll.
func (h *heldConns) add(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.conns[c] = true
	return true
}

func (h *heldConns) remove(c net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
	h.tellWaiters()
}

// none returns a channel that is closed once there are none.
func (h *heldConns) none() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{})
	h.waits = append(h.waits, c)
	h.tellWaiters()
	return c
}

func (h *heldConns) tellWaiters() {
	if len(h.conns) > 0 {
		return
	}
	for _, c := range h.waits {
		close(c)
	}
	h.waits = nil
}

func (h *heldConns) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.conns {
		_ = c.Close()
	}
}
