package fleet

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// echo answers each connection with what it says, until the test ends.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // until the other side ends it
			}()
		}
	}()
	return netip.MustParseAddrPort(l.Addr().String())
}

func dialRelay(t *testing.T, to netip.AddrPort) (*Relay, net.Conn, *bufio.Reader) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := NewRelay(l, to)
	t.Cleanup(r.Close)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return r, c, bufio.NewReader(c)
}

func says(t *testing.T, c net.Conn, r *bufio.Reader, want string, within time.Duration) error {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	got, err := r.ReadString('\n')
	if err == nil && got != want {
		t.Fatalf("%q came back, not %q", got, want)
	}
	return err
}

func TestACutRelayIsSilentAndLosesNothing(t *testing.T) {
	t.Parallel()
	r, c, answers := dialRelay(t, echo(t))
	send := func(s string) {
		t.Helper()
		if _, err := io.WriteString(c, s); err != nil {
			t.Fatal(err)
		}
	}
	send("before\n")
	if err := says(t, c, answers, "before\n", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	r.Cut()
	r.Cut() // again changes nothing
	send("meanwhile\n")
	late, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	for _, silent := range []net.Conn{c, late} {
		if err := silent.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := silent.Read(make([]byte, 1))
		if e, ok := err.(net.Error); !ok || !e.Timeout() {
			t.Errorf("a connection of a cut relay was not silent: %v", err)
		}
	}
	r.Mend()
	if err := says(t, c, answers, "meanwhile\n", 10*time.Second); err != nil {
		t.Errorf("what was sent while it was cut did not arrive: %s", err)
	}
}

func TestARelayToNobodyCloses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := netip.MustParseAddrPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, c, answers := dialRelay(t, nobody)
	if err := says(t, c, answers, "", 10*time.Second); err != io.EOF {
		t.Errorf("%v, not the end of the connection", err)
	}
}

func TestACutRelayCanBeClosed(t *testing.T) {
	t.Parallel()
	r, c, answers := dialRelay(t, echo(t))
	r.Cut()
	if _, err := io.WriteString(c, "never\n"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := says(t, c, answers, "never\n", 10*time.Second); err == nil {
		t.Error("a connection outlived its relay")
	}
}
