package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestWorld: what no proxy serves is refused by its host, in both families; hosts of proxies reach the nodes, and
// clients don't.
func TestWorld(t *testing.T) {
	t.Parallel()
	n, err := newWorld(2)
	if err != nil {
		t.Fatal(err)
	}
	defer n.release()
	w := n.world
	for _, node := range []netip.Addr{n.node(2, 3), n.node6(2, 3)} {
		l, err := w.nodes.Listen("tcp", netip.AddrPortFrom(node, 80).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i := 1; i <= proxyCount; i++ {
			c, err := w.proxyHost(i).Dial(t.Context(), net.Dialer{}, "tcp", l.Addr().String())
			if err != nil {
				t.Errorf("edge-%d: %v", i, err)
				continue
			}
			c.Close()
			if c, err := w.dialProxy(i)(t.Context(), "tcp", l.Addr().String()); err == nil {
				t.Errorf("clients-%d reach %s, past the proxy", i, c.RemoteAddr())
				c.Close()
			}
		}
	}
	for _, address := range []string{"10.80.0.7:80", "[fd00:80::7]:80"} {
		for i := 1; i <= proxyCount; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := w.dialProxy(i)(ctx, "tcp", address)
			cancel()
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("clients-%d at %s: %v", i, address, err)
			}
		}
	}
}

func TestRelayedAddressIsTheSameThere(t *testing.T) {
	t.Parallel()
	n, err := newWorld(1)
	if err != nil {
		t.Fatal(err)
	}
	defer n.release()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			c.Close()
		}
	}()
	r, err := n.world.relayToProxy(1, netip.MustParseAddrPort(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ask := func() (string, error) {
		c, err := n.world.proxyHost(1).Dial(t.Context(), net.Dialer{}, "tcp", l.Addr().String())
		if err != nil {
			return "", err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		return string(b), err
	}
	if got, err := ask(); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	l.Close()
	if got, _ := ask(); got != "" {
		t.Errorf("who is relayed has ended, and says %q", got)
	}
}
