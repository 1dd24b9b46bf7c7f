package capi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"sync"
)

// memberHeader names, in each answer, the Machine whose front gave it.
const memberHeader = "X-Member"

// front is the API server of one Machine, as clients meet it: at the Machine's address, with the cluster's certificate. What it is asked
// goes to the in-memory API server, which all Machines of the cluster share.
type front struct {
	address netip.AddrPort
	server  *http.Server
	// silence is held while it hangs.
	silence sync.RWMutex

	mu       sync.Mutex
	listener net.Listener
	hangs    bool
	crashed  bool
	conns    map[*frontConn]bool // open ones, forwarded ports among them, which its server knows nothing of
}

// startFront serves a Machine's API server at an address. backend is where the in-memory one listens; cert has that address.
func startFront(machine string, address, backend netip.AddrPort, cert tls.Certificate) (*front, error) {
	f := &front{address: address, conns: map[*frontConn]bool{}}
	l, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("serving the API server of %s: %w", machine, err)
	}
	f.listener = l
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { toBackend(r, backend.String()) },
		FlushInterval: -1, // watches
		// A port-forward is an upgrade, which HTTP/2 doesn't know. The backend's certificate has none of the names that it is reached by.
		Transport: &http.Transport{Protocols: http1(), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		ErrorLog:  log.New(io.Discard, "", 0),
	}
	mux := http.NewServeMux()
	mux.Handle("/", forward)
	for _, probe := range []string{"/livez", "/readyz"} { // the in-memory one has neither
		mux.HandleFunc(probe, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	}
	f.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(memberHeader, machine)
			mux.ServeHTTP(w, r)
		}),
		Protocols: http1(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ErrorLog:  log.New(io.Discard, "", 0), // health checks that end in the handshake
	}
	go func() { _ = f.server.ServeTLS(frontListener{l, f}, "", "") }() // it ends with the listener
	return f, nil
}

func http1() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	return p
}

// toBackend has a request go to the in-memory API server, which tells its clusters apart by the port in the Host header.
func toBackend(r *httputil.ProxyRequest, backend string) {
	r.SetURL(&url.URL{Scheme: "https", Host: backend})
	r.Out.Host = backend
	// Its watch knows nothing of sendInitialEvents, and would leave out what is older than the version: a client that watches again would
	// believe that nothing is there.
	if q := r.Out.URL.Query(); q.Get("sendInitialEvents") == "true" {
		q.Del("resourceVersion")
		r.Out.URL.RawQuery = q.Encode()
	}
}

// open are its connections.
func (f *front) open() []*frontConn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.conns))
}

// crash ends it: its connections are cut, and further ones refused. What it was asked while it hung is never answered.
func (f *front) crash() {
	_ = f.listener.Close()
	f.mu.Lock()
	f.crashed = true
	f.mu.Unlock()
	for _, c := range f.open() {
		_ = c.Close()
	}
	f.resume() // whoever waits finds its connection closed
	_ = f.server.Close()
}

// hang has it take connections, and answer nothing on any, until resume.
func (f *front) hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hangs {
		f.silence.Lock()
		f.hangs = true
	}
}

func (f *front) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		f.silence.Unlock()
		f.hangs = false
	}
}

// frontListener takes connections for a front.
type frontListener struct {
	net.Listener
	front *front
}

func (l frontListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	f := &frontConn{c, l.front}
	l.front.mu.Lock()
	defer l.front.mu.Unlock()
	if l.front.crashed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	l.front.conns[f] = true
	return f, nil
}

// frontConn is a connection to a front, which passes nothing on while that hangs.
type frontConn struct {
	net.Conn
	front *front
}

func (c *frontConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.front.silence.RLock()
	defer c.front.silence.RUnlock()
	return n, err
}

func (c *frontConn) Write(b []byte) (int, error) {
	c.front.silence.RLock()
	defer c.front.silence.RUnlock()
	return c.Conn.Write(b)
}

func (c *frontConn) Close() error {
	c.front.mu.Lock()
	delete(c.front.conns, c)
	c.front.mu.Unlock()
	return c.Conn.Close()
}

// visit makes one request on a connection of its own, and returns who answered.
func visit(ctx context.Context, client *tls.Config, target string) (member string, err error) {
	transport := &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return "", fmt.Errorf("reading the answer of %s: %w", res.Header.Get(memberHeader), err)
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s", res.Header.Get(memberHeader), res.Status)
	}
	return res.Header.Get(memberHeader), nil
}
