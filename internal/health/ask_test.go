package health

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// answer is an HTTP server that answers each path with the status in it.
func answer(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/") {
	case "":
		w.WriteHeader(http.StatusOK)
	case "302":
		http.Redirect(w, r, "/503", http.StatusFound)
	case "403":
		w.WriteHeader(http.StatusForbidden)
	case "404":
		w.WriteHeader(http.StatusNotFound)
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "hang":
		<-r.Context().Done()
	case "big":
		w.Header().Set("X-Big", strings.Repeat("x", 1<<16))
		io.WriteString(w, strings.Repeat("x", 1<<20))
	}
}

func TestAsk(t *testing.T) {
	plainServer, tlsServer := httptest.NewServer(http.HandlerFunc(answer)), httptest.NewUnstartedServer(http.HandlerFunc(answer))
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0)
	tlsServer.StartTLS()
	defer plainServer.Close()
	defer tlsServer.Close()
	silent := echo(t)
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()

	for _, test := range []struct {
		name  string
		kind  lb.CheckKind
		of    net.Addr
		path  string
		alive string
		err   string
	}{
		{name: "a port that listens", kind: lb.CheckTCP, of: plainServer.Listener.Addr()},
		{name: "a port that doesn't", kind: lb.CheckTCP, of: gone.Addr(), err: "connecting: connection refused"},
		{name: "200", kind: lb.CheckHTTP, of: plainServer.Listener.Addr()},
		{name: "a redirect is not followed", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/302"},
		{name: "a long answer", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/big"},
		{name: "503", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/503", err: "status 503"},
		{name: "403", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/403", err: "status 403"},
		{name: "403 accepted", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/403", alive: "401,403"},
		{name: "403 is not 40", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/403", alive: "40,4030", err: "status 403"},
		{name: "no answer", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/hang", err: "reading the answer: timed out"},
		{name: "no HTTP", kind: lb.CheckHTTP, of: silent, err: "the answer is not HTTP"},
		{name: "a second request smuggled", kind: lb.CheckHTTP, of: plainServer.Listener.Addr(), path: "/ HTTP/1.1\r\n\r\nDELETE /", err: `path "/ HTTP/1.1\r\n\r\nDELETE /" can't be asked for`},
		{name: "https with nobody's certificate", kind: lb.CheckHTTPS, of: tlsServer.Listener.Addr()},
		{name: "https 503", kind: lb.CheckHTTPS, of: tlsServer.Listener.Addr(), path: "/503", err: "status 503"},
		{name: "https 403 accepted", kind: lb.CheckHTTPS, of: tlsServer.Listener.Addr(), path: "/403", alive: "403"},
		{name: "https to plain http", kind: lb.CheckHTTPS, of: plainServer.Listener.Addr(), err: "shaking hands: tls: first record does not look like a TLS handshake"},
		{name: "http to https", kind: lb.CheckHTTP, of: tlsServer.Listener.Addr(), err: "status 400"},
		{name: "unknown", kind: "GRPC", of: plainServer.Listener.Addr(), err: `check "GRPC" is not known`},
	} {
		t.Run(test.name, func(t *testing.T) {
			where := test.of.(*net.TCPAddr).AddrPort()
			timeout := 10 * time.Second // A busy machine takes its time to shake hands.
			if strings.HasSuffix(test.err, "timed out") {
				timeout = 300 * time.Millisecond
			}
			err := ask(lb.Probe{Address: where.Addr(), Check: lb.Check{
				Kind: test.kind, Port: where.Port(), Path: test.path, Alive: test.alive, Timeout: timeout,
			}})
			if got := text(err); got != test.err {
				t.Errorf("got %q, want %q", got, test.err)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A lenient check is one of TCP where no HTTP is spoken, or who asks or what for is refused; a member that hangs, or says itself that
// it is not ready, fails it.
func TestALenientCheckFallsBackToTCP(t *testing.T) {
	plainServer, tlsServer := httptest.NewServer(http.HandlerFunc(answer)), httptest.NewTLSServer(http.HandlerFunc(answer))
	defer plainServer.Close()
	defer tlsServer.Close()
	mutual := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	defer mutual.Close()
	hangs, err := net.Listen("tcp4", "127.0.0.1:0") // the kernel takes the connection, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	for name, c := range map[string]struct {
		of        net.Addr
		path, err string
	}{
		"ready":              {tlsServer.Listener.Addr(), "/", ""},
		"anonymous refused":  {tlsServer.Listener.Addr(), "/403", ""},
		"not ready":          {tlsServer.Listener.Addr(), "/503", "status 503"},
		"wants an identity":  {mutual.Listener.Addr(), "/", ""},
		"knows no such path": {tlsServer.Listener.Addr(), "/404", ""},
		"plain HTTP":         {plainServer.Listener.Addr(), "/503", ""},
		"no HTTP at all":     {echo(t), "/", ""},
		"hangs":              {hangs.Addr(), "/", "shaking hands: timed out"},
	} {
		timeout := 10 * time.Second
		if c.err == "shaking hands: timed out" {
			timeout = 300 * time.Millisecond
		}
		where := c.of.(*net.TCPAddr).AddrPort()
		got := text(ask(lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: lb.CheckHTTPS, Port: where.Port(), Path: c.path, Timeout: timeout, Lenient: true}}))
		if got != c.err {
			t.Errorf("%s: %q, not %q", name, got, c.err)
		}
	}
}

// A member that shakes hands, takes the question and is silent fails a lenient check too, when the time of the check is over.
func TestALenientCheckWaitsForTheAnswerNoLongerThanItsTimeout(t *testing.T) {
	has := httptest.NewTLSServer(http.NotFoundHandler())
	has.Close()
	certificates := has.TLS.Certificates
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		taken := make(chan error, 1)
		go func() {
			server := tls.Server(far, &tls.Config{Certificates: certificates, SessionTicketsDisabled: true}) // a pipe holds no tickets
			r, err := http.ReadRequest(bufio.NewReader(server))
			if err == nil && r.URL.Path != "/readyz" {
				err = errors.New("asked for " + r.URL.Path)
			}
			taken <- err
		}()
		began := time.Now()
		err := verdict(near, "10.0.0.1:6443", lb.Check{Kind: lb.CheckHTTPS, Path: "/readyz", Timeout: 3 * time.Second, Lenient: true}, began.Add(3*time.Second))
		if got := text(err); got != "reading the answer: timed out" {
			t.Errorf("%q", got)
		}
		if got := time.Since(began); got != 3*time.Second { // of a clock that stands still while anything runs
			t.Errorf("after %s", got)
		}
		if err := <-taken; err != nil {
			t.Error(err)
		}
	})
}

// A lenient check finds out who is dead as soon as one that only connects does, however long it would wait for an answer.
func TestALenientCheckConnectsWithinASecond(t *testing.T) {
	for _, c := range []struct {
		check lb.Check
		want  time.Duration
	}{
		{lb.Check{Kind: lb.CheckHTTPS, Timeout: 3 * time.Second, Lenient: true}, time.Second},
		{lb.Check{Kind: lb.CheckHTTPS, Timeout: 500 * time.Millisecond, Lenient: true}, 500 * time.Millisecond},
		{lb.Check{Kind: lb.CheckHTTPS, Timeout: 3 * time.Second}, 3 * time.Second},
	} {
		if d := dialer(c.check); d.Timeout != c.want {
			t.Errorf("%+v: %s", c.check, d.Timeout)
		}
	}
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) net.Addr {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr()
}

// TestDeadHostIsOutSoon goes over real sockets.
func TestDeadHostIsOutSoon(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	where := ln.Addr().(*net.TCPAddr).AddrPort()
	p := lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: lb.CheckTCP, Port: where.Port(), Interval: time.Hour, Timeout: time.Second, Rise: 2, Fall: 2}}
	c := New(Options{})
	defer c.Close()
	c.SetProbes(shop(p))
	<-c.Changed()
	if v := c.Verdicts().Of(p.Check, p.Address); v != lb.Healthy {
		t.Fatalf("got %v", v)
	}
	ln.Close()
	began := time.Now()
	c.Suspect(p.Address)
	<-c.Changed()
	if v := c.Verdicts().Of(p.Check, p.Address); v != lb.Unhealthy {
		t.Fatalf("got %v", v)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
}

// BenchmarkCheck is what one check costs, kernel and both ends included.
func BenchmarkCheck(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	where := server.Listener.Addr().(*net.TCPAddr).AddrPort()
	for _, kind := range []lb.CheckKind{lb.CheckTCP, lb.CheckHTTP} {
		b.Run(string(kind), func(b *testing.B) {
			for b.Loop() {
				if err := ask(lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: kind, Port: where.Port(), Timeout: time.Second}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSetProbes tells 10,000 probes that nothing has changed.
func BenchmarkSetProbes(b *testing.B) {
	c := newChecker(Options{}, func(lb.Probe) error { return nil })
	defer c.Close()
	var probes []lb.Probe
	for i := range 10_000 {
		probes = append(probes, lb.Probe{
			Address: netip.AddrFrom4([4]byte{10, 0, byte(i % 50), 1}),
			Check:   lb.Check{Kind: lb.CheckTCP, Port: uint16(1000 + i/50), Interval: time.Hour},
		})
	}
	wanted := shop(probes...)
	for b.Loop() {
		c.SetProbes(wanted)
	}
}
