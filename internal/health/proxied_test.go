package health

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// listen serves each connection of a test's listener in turn.
func listen(t *testing.T, address string, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", address)
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
			serve(c)
			c.Close()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

func TestACheckOfAProxiedPortBeginsWithAHeader(t *testing.T) {
	v2 := []byte{'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n', 0x20, 0, 0, 0}
	for name, test := range map[string]struct {
		version int
		kind    lb.CheckKind
		header  []byte
	}{
		"version 1": {1, lb.CheckHTTP, []byte("PROXY UNKNOWN\r\n")},
		"version 2": {2, lb.CheckHTTP, v2},
	} {
		t.Run(name, func(t *testing.T) {
			where := listen(t, "127.0.0.1:0", func(c net.Conn) {
				r := bufio.NewReader(c)
				got := make([]byte, len(test.header))
				if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, test.header) {
					io.WriteString(c, "HTTP/1.1 400 no header\r\n\r\n")
					return
				}
				if line, _ := r.ReadString('\n'); line != "GET / HTTP/1.1\r\n" {
					io.WriteString(c, "HTTP/1.1 400 no request\r\n\r\n")
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			})
			p := lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: test.kind, Port: where.Port(), Timeout: 10 * time.Second, ProxyProtocol: test.version}}
			if err := ask(p); err != nil {
				t.Error(err)
			}
			p.Check.ProxyProtocol = 0
			if err := ask(p); err == nil {
				t.Error("it was taken without a header, too")
			}
		})
	}
	where := echo(t).(*net.TCPAddr).AddrPort()
	err := ask(lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: lb.CheckTCP, Port: where.Port(), Timeout: 10 * time.Second, ProxyProtocol: 3}})
	if text(err) != "version 3 of the PROXY protocol is not known" {
		t.Error(err)
	}
}

func TestATCPCheckSendsTheHeaderToo(t *testing.T) {
	got := make(chan string, 1)
	where := listen(t, "127.0.0.1:0", func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		got <- line
	})
	if err := ask(lb.Probe{Address: where.Addr(), Check: lb.Check{Kind: lb.CheckTCP, Port: where.Port(), Timeout: 10 * time.Second, ProxyProtocol: 1}}); err != nil {
		t.Fatal(err)
	}
	if line := <-got; line != "PROXY UNKNOWN\r\n" {
		t.Errorf("got %q", line)
	}
}

func TestMembersOverIPv6AreChecked(t *testing.T) {
	where := listen(t, "[::1]:0", func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		if line == "GET /healthz HTTP/1.1\r\n" {
			io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	for _, check := range []lb.Check{
		{Kind: lb.CheckTCP, Port: where.Port(), Timeout: 10 * time.Second},
		{Kind: lb.CheckHTTP, Port: where.Port(), Path: "/healthz", Timeout: 10 * time.Second},
	} {
		if err := ask(lb.Probe{Address: where.Addr(), Check: check}); err != nil {
			t.Errorf("%s: %v", check, err)
		}
	}
}
