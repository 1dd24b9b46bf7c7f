package netns_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/testkit/netns"
)

// pair is two namespaces on one cable.
func pair(t *testing.T) (n *netns.Network, a, b *netns.Namespace) {
	t.Helper()
	n = netns.New()
	t.Cleanup(n.Close)
	a, b = n.Namespace("a"), n.Namespace("b")
	a.Link("eth0", b, "eth0")
	a.Address("eth0", "10.0.0.1/24", "fd00::1/64")
	b.Address("eth0", "10.0.0.2/24", "fd00::2/64")
	if err := n.Err(); err != nil {
		t.Fatal(err)
	}
	return n, a, b
}

func TestSocketsStayInTheirNamespace(t *testing.T) {
	_, a, b := pair(t)
	for _, address := range []string{"10.0.0.2:80", "[fd00::2]:80"} {
		l, err := b.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				io.WriteString(c, "hello "+c.RemoteAddr().String())
				c.Close()
			}
		}()
		c, err := a.Dial(context.Background(), net.Dialer{}, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, err := io.ReadAll(c); err != nil || string(got) != "hello "+c.LocalAddr().String() {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestNamespacesShareNoPorts(t *testing.T) {
	_, a, b := pair(t)
	for _, ns := range []*netns.Namespace{a, b} {
		l, err := ns.Listen("tcp", "127.0.0.1:80")
		if err != nil {
			t.Fatalf("%s: %v", ns.Name(), err)
		}
		defer l.Close()
	}
}

func TestPacketsGoThroughABridge(t *testing.T) {
	n := netns.New()
	t.Cleanup(n.Close)
	hub, a, b := n.Namespace("hub"), n.Namespace("a"), n.Namespace("b")
	hub.Bridge("br0")
	for link, end := range map[string]*netns.Namespace{"a": a, "b": b} {
		hub.Link(link, end, "eth0")
		hub.Plug("br0", link)
	}
	a.Address("eth0", "10.0.0.1/24")
	b.Address("eth0", "10.0.0.2/24")
	b.Local("10.9.0.0/16")
	a.Route("10.9.0.0/16", "10.0.0.2")
	if err := n.Err(); err != nil {
		t.Fatal(err)
	}
	server, err := b.ListenPacket("udp", "10.9.8.7:53")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := a.Dial(context.Background(), net.Dialer{}, "udp", "10.9.8.7:53")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	io.WriteString(client, "hello")
	got := make([]byte, 16)
	if n, from, err := server.ReadFrom(got); err != nil || string(got[:n]) != "hello" || from.String() != client.LocalAddr().String() {
		t.Errorf("got %q from %v, %v", got[:n], from, err)
	}
}

func TestProcessIsInTheNamespace(t *testing.T) {
	_, a, _ := pair(t)
	cmd := exec.Command("cat", "/proc/net/dev")
	var out strings.Builder
	cmd.Stdout = &out
	if err := a.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, ":") != 2 || !strings.Contains(got, "eth0:") {
		t.Errorf("the process sees other links:\n%s", got)
	}
	addresses, err := a.Addresses()
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	if err != nil || !slices.Equal(addresses, want) {
		t.Errorf("addresses %v, %v, want %v", addresses, err, want)
	}
}

func TestSettingIsOfTheNamespaceAlone(t *testing.T) {
	n, a, b := pair(t)
	a.Set("ipv4/ip_forward", "1")
	if err := n.Err(); err != nil {
		t.Fatal(err)
	}
	for ns, want := range map[*netns.Namespace]string{a: "1", b: "0"} {
		cmd := exec.Command("cat", "/proc/sys/net/ipv4/ip_forward")
		var out strings.Builder
		cmd.Stdout = &out
		if err := errors.Join(ns.Start(cmd), cmd.Wait()); err != nil || strings.TrimSpace(out.String()) != want {
			t.Errorf("%s: got %q, %v, want %s", ns.Name(), out.String(), err, want)
		}
	}
}

func TestFirstFailureIsRemembered(t *testing.T) {
	n, a, _ := pair(t)
	a.Address("eth7", "10.0.0.3/24")
	a.Up("eth8")
	if err := n.Err(); err == nil || !strings.Contains(err.Error(), "eth7") {
		t.Errorf("got %v, want what failed first", err)
	}
	if err := a.Do(func() error { return nil }); err == nil {
		t.Error("a broken network is used")
	}
}
