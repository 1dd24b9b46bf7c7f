package dataplanetest

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/testkit/netns"
	"fairlead.dev/fairlead/internal/traffic"
)

// Ports that members listen on, IPv4 and IPv6 alike.
const (
	// echoPort says over TCP who is there and whom it sees, then echoes lines; over UDP it says so with each datagram.
	echoPort = 7000
	// otherPort is the same.
	otherPort = 7001
	// headedPort is the same for TCP connections that begin with a PROXY header, whose client it says that it sees.
	headedPort = 7002
	// webPort answers as internal/traffic asks.
	webPort = 8080
	// healthPort answers checks over HTTP.
	healthPort = 8081
)

// What members do at a client's word; every other line is echoed.
const (
	// upload takes all that comes and answers with its checksum at the end.
	upload = "upload\n"
	// download sends downloadSize bytes and ends; the last line is their checksum.
	download = "download\n"
	// hush ends the member's direction, and goes on to listen.
	hush = "hush\n"

	downloadSize = 32 << 20
)

// member is a host with servers.
type member struct {
	w    *world
	name string
	ns   *netns.Namespace
	n    int

	// status is what a check over HTTP gets.
	status atomic.Int32
	// malformed counts connections to headedPort without a header, heard the bytes after hush.
	malformed, heard atomic.Int64
	// gate is locked while the servers hang.
	gate    sync.RWMutex
	hanging bool

	mu      sync.Mutex
	open    []io.Closer
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

// member adds the member of that number, running.
func (w *world) member(n int) *member {
	w.Helper()
	m := &member{w: w, name: fmt.Sprintf("m%d", n), n: n, conns: map[net.Conn]struct{}{}}
	m.status.Store(http.StatusOK)
	m.ns = w.net.Namespace(m.name)
	w.fabric.Link(m.name, m.ns, "eth0")
	w.fabric.Plug("back", m.name)
	m.addresses()
	w.must(w.net.Err())
	w.members[n] = m
	m.run()
	w.Cleanup(func() {
		m.resume()
		m.die()
	})
	return m
}

func (m *member) addresses() {
	m.ns.Address("eth0", memberAddress(m.n)+"/24", memberAddress6(m.n)+"/64")
	m.routeBy(m.w.hosts[0])
}

// routeBy makes a load balancer's host the member's way to everywhere.
func (m *member) routeBy(h *host) {
	m.w.Helper()
	m.ns.Route("0.0.0.0/0", h.backAddress())
	m.ns.Route("::/0", fmt.Sprintf("fd03::%d", h.number))
	m.w.must(m.w.net.Err())
}

// run starts the servers.
func (m *member) run() {
	m.w.Helper()
	m.serve(echoPort, m.greet)
	m.serve(otherPort, m.greet)
	m.serve(headedPort, m.greetHeaded)
	m.serveUDP(echoPort)
	m.serveUDP(otherPort)
	mux := http.NewServeMux()
	mux.HandleFunc("/", m.answer)
	mux.HandleFunc("/hold", m.hold)
	m.serveHTTP(webPort, mux)
	m.serveHTTP(healthPort, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		m.wait()
		w.WriteHeader(int(m.status.Load()))
	}))
}

// die ends the servers as a node's end does: nobody listens, open connections are reset.
func (m *member) die() {
	m.mu.Lock()
	for _, c := range m.open {
		c.Close()
	}
	for c := range m.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
	m.open = nil
	m.mu.Unlock()
	m.running.Wait()
}

// hang lets the servers take everything and answer nothing, until resume.
func (m *member) hang() {
	m.gate.Lock()
	m.hanging = true
}

func (m *member) resume() {
	if m.hanging {
		m.hanging = false
		m.gate.Unlock()
	}
}

func (m *member) wait() {
	m.gate.RLock()
	defer m.gate.RUnlock()
}

// vanish takes the member's host off the network, without a word; appear brings it back.
func (m *member) vanish() {
	m.w.Helper()
	m.ns.Down("eth0")
	m.w.must(m.w.net.Err())
}

func (m *member) appear() {
	m.w.Helper()
	m.ns.Up("eth0")
	m.addresses()
	m.w.must(m.w.net.Err())
}

func (m *member) serve(port int, talk func(net.Conn)) {
	m.w.Helper()
	l, err := m.ns.Listen("tcp", fmt.Sprintf(":%d", port))
	m.w.must(err)
	m.mu.Lock()
	m.open = append(m.open, l)
	m.mu.Unlock()
	m.running.Go(func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				runtime.Gosched()
				continue
			}
			m.mu.Lock()
			m.conns[c] = struct{}{}
			m.mu.Unlock()
			m.running.Go(func() {
				defer func() {
					c.Close()
					m.mu.Lock()
					delete(m.conns, c)
					m.mu.Unlock()
				}()
				talk(c)
			})
		}
	})
}

func (m *member) greet(c net.Conn) {
	m.wait()
	fmt.Fprintf(c, "hello %s %s\n", m.name, c.RemoteAddr())
	m.echo(c, bufio.NewReader(c))
}

func (m *member) greetHeaded(c net.Conn) {
	m.wait()
	in := bufio.NewReader(c)
	client, err := readHeader(in)
	if err != nil {
		m.malformed.Add(1)
		return
	}
	fmt.Fprintf(c, "hello %s %s\n", m.name, client)
	m.echo(c, in)
}

func (m *member) echo(c net.Conn, in *bufio.Reader) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		m.wait()
		switch line {
		case upload:
			sum := sha256.New()
			n, err := io.Copy(sum, in)
			if err == nil {
				fmt.Fprintf(c, "%d %x\n", n, sum.Sum(nil))
			}
			return
		case download:
			sum := sha256.New()
			if _, err := io.CopyN(io.MultiWriter(c, sum), noise(), downloadSize); err == nil {
				fmt.Fprintf(c, "%x\n", sum.Sum(nil))
			}
			return
		case hush:
			_ = c.(*net.TCPConn).CloseWrite()
			n, _ := io.Copy(io.Discard, in)
			m.heard.Add(n)
			return
		}
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}

// noise are bytes without end that no compression and no repetition makes right by chance.
func noise() io.Reader { return rand.NewChaCha8([32]byte{}) }

func (m *member) serveUDP(port int) {
	m.w.Helper()
	for _, address := range []string{memberAddress(m.n), "[" + memberAddress6(m.n) + "]"} {
		c, err := m.ns.ListenPacket("udp", fmt.Sprintf("%s:%d", address, port))
		m.w.must(err)
		m.mu.Lock()
		m.open = append(m.open, c)
		m.mu.Unlock()
		m.running.Go(func() {
			buf := make([]byte, 2048)
			for {
				n, from, err := c.ReadFrom(buf)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					continue
				}
				m.wait()
				_, _ = c.WriteTo(fmt.Appendf(nil, "hello %s %s %s", m.name, from, buf[:n]), from)
			}
		})
	}
}

func (m *member) serveHTTP(port int, handler http.Handler) {
	m.w.Helper()
	l, err := m.ns.Listen("tcp", fmt.Sprintf(":%d", port))
	m.w.must(err)
	server := &http.Server{Handler: handler}
	m.mu.Lock()
	m.open = append(m.open, server)
	m.mu.Unlock()
	m.running.Go(func() { _ = server.Serve(l) })
}

func (m *member) answer(w http.ResponseWriter, r *http.Request) {
	m.wait()
	_ = json.NewEncoder(w).Encode(traffic.Answer{Identity: m.identity(), Client: r.RemoteAddr})
}

func (m *member) identity() traffic.Identity {
	return traffic.Identity{Cluster: "members", Namespace: string(shop), Pod: m.name, Node: m.name}
}

func (m *member) hold(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	m.mu.Lock()
	m.conns[c] = struct{}{}
	m.mu.Unlock()
	defer func() {
		c.Close()
		m.mu.Lock()
		delete(m.conns, c)
		m.mu.Unlock()
	}()
	if json.NewEncoder(rw).Encode(traffic.Answer{Identity: m.identity(), Client: r.RemoteAddr}) == nil && rw.Flush() == nil {
		_, _ = io.Copy(c, rw)
	}
}

var errHeader = errors.New("no PROXY header")

// readHeader reads a PROXY header, version 1 or 2, and returns the client that it names, with the version: "v1 10.1.0.2:4711",
// or "v2 local" for a connection of nobody else's.
func readHeader(in *bufio.Reader) (string, error) {
	const signature = "\r\n\r\n\x00\r\nQUIT\n"
	start, err := in.Peek(6)
	if err != nil {
		return "", err
	}
	if string(start) == "PROXY " {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if len(line) > 107 || !strings.HasSuffix(line, "\r\n") {
			return "", errHeader
		}
		switch f := strings.Fields(line); {
		case len(f) >= 2 && f[1] == "UNKNOWN":
			return "v1 local", nil
		case len(f) == 6 && (f[1] == "TCP4" || f[1] == "TCP6"):
			return "v1 " + net.JoinHostPort(f[2], f[4]), nil
		}
		return "", errHeader
	}
	head := make([]byte, 16)
	if _, err := io.ReadFull(in, head); err != nil {
		return "", err
	}
	if string(head[:12]) != signature || head[12]>>4 != 2 {
		return "", errHeader
	}
	body := make([]byte, int(head[14])<<8|int(head[15]))
	if _, err := io.ReadFull(in, body); err != nil {
		return "", err
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[head[13]]
	switch {
	case head[12]&0xf == 0:
		return "v2 local", nil
	case head[12]&0xf != 1 || size == 0 || len(body) < 2*size+4:
		return "", errHeader
	}
	port := int(body[2*size])<<8 | int(body[2*size+1])
	return "v2 " + net.JoinHostPort(net.IP(body[:size]).String(), fmt.Sprint(port)), nil
}
