package builtin

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tcpPair is both ends of a connection over loopback.
func tcpPair(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); c.Close() })
	return a, c.(*net.TCPConn)
}

// sockOf takes c's socket over.
func sockOf(t *testing.T, c *net.TCPConn) *sock {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	if err := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || fd < 0 {
		t.Fatal(err)
	}
	c.Close()
	s, err := newSock(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The kernel tells of a reset once. Where the write of one direction was told, the read of the other sees an
// end: that must not reach the client as one.
func TestAResetThatAWriteWasToldOfIsNoEnd(t *testing.T) {
	d := start(t, Options{}).Dataplane
	client, user := tcpPair(t)
	target, member := tcpPair(t)
	c := &conn{client: sockOf(t, client), target: sockOf(t, target)}
	member.SetLinger(0)
	member.Close()
	for deadline := time.Now().Add(5 * time.Second); !c.target.over(); {
		if time.Now().After(deadline) {
			t.Fatal("the reset did not arrive")
		}
	}
	if _, err := c.target.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the write was told %v", err)
	}
	var e end
	(&pump{d: d, from: c.target, to: c.client}).carry(c, &e)
	if _, err := user.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
}

// A whole answer after a whole question is an end, whatever state the connection is in by then.
func TestBothEndsSaidIsAnEnd(t *testing.T) {
	d := start(t, Options{}).Dataplane
	for range 100 {
		client, user := tcpPair(t)
		target, server := tcpPair(t)
		c := &conn{client: sockOf(t, client), target: sockOf(t, target)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.relay(c, &member{}, 0)
		}()
		user.CloseWrite()
		server.CloseWrite()
		for _, x := range []*net.TCPConn{user, server} {
			if n, err := x.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, syscall.ECONNRESET) {
				t.Fatalf("got %d bytes, %v, want an end", n, err)
			}
		}
		<-done
	}
}
