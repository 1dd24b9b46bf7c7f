package builtin

import (
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// TestSilentMemberCostsOneClientATimeout has a member whose host takes connects and answers none.
func TestSilentMemberCostsOneClientATimeout(t *testing.T) {
	web, m1, _ := pair(t)
	m1.stop()
	keepSilent(t, at("127.0.1.1", web.port))
	p := start(t, Options{ConnectTimeout: 100 * time.Millisecond})
	p.apply(web)
	for range 50 {
		if c := mustConnect(t, web.at); c.name != "m2" {
			t.Fatalf("went to %s", c.name)
		}
	}
	if n := p.suspected(netip.MustParseAddr("127.0.1.1")); n != 1 {
		t.Errorf("the silent member was tried and told to health %d times for 50 clients, want once", n)
	}
	if n := counter(t, p.metrics.targets[[2]string{"tenant", "m1"}].connects[timedOut]); n != 1 {
		t.Errorf("%v timeouts are counted, want 1", n)
	}
}

// keepSilent listens at where with a backlog that is full.
func keepSilent(t *testing.T, where netip.AddrPort) {
	t.Helper()
	open := func() int {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(fd) })
		return fd
	}
	to := &syscall.SockaddrInet4{Addr: where.Addr().As4(), Port: int(where.Port())}
	fd := open()
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, to); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := syscall.Connect(open(), to); err != nil && err != syscall.EINPROGRESS {
			t.Fatal(err)
		}
	}
}
