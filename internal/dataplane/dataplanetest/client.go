package dataplanetest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// conn is a client's connection whose member has said who it is.
type conn struct {
	*net.TCPConn
	in *bufio.Reader
	// member is who answered, seen whom it sees.
	member, seen string
}

// from is a client's address; port 0 is any.
func from(address string, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port))
}

// client is the n-th of the client's many addresses; client6 one of IPv6.
func client(n int) netip.AddrPort  { return from(fmt.Sprintf("10.2.%d.%d", n/250, 1+n%250), 0) }
func client6(n int) netip.AddrPort { return from(fmt.Sprintf("fd02::%x", 1+n), 0) }

// connect dials and hears the greeting, within that time, from a source that may be unset.
func (w *world) connect(source, to netip.AddrPort, most time.Duration) (*conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	d := net.Dialer{KeepAlive: -1, Control: reuse}
	if source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(source)
	}
	raw, err := w.client.Dial(ctx, d, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: raw.(*net.TCPConn), in: bufio.NewReader(raw)}
	deadline, _ := ctx.Deadline()
	c.SetDeadline(deadline)
	line, err := c.in.ReadString('\n')
	if err == nil {
		var ok bool
		if c.member, c.seen, ok = greeting(strings.TrimSuffix(line, "\n")); !ok {
			err = fmt.Errorf("greeted with %q", line)
		}
	}
	if err != nil {
		c.drop()
		return nil, fmt.Errorf("hearing the greeting: %w", err)
	}
	c.SetDeadline(time.Now().Add(10 * patience))
	return c, nil
}

// reuse lets a client come again from the same port.
func reuse(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
}

func greeting(s string) (member, seen string, ok bool) {
	s, ok = strings.CutPrefix(s, "hello ")
	member, seen, _ = strings.Cut(s, " ")
	return member, seen, ok
}

// drop ends a connection at once, so that nothing of it is left on either side.
func (c *conn) drop() {
	c.SetLinger(0)
	c.Close()
}

// dial connects from anywhere; it must succeed. The connection ends with the test at the latest.
func (w *world) dial(to netip.AddrPort) *conn {
	w.Helper()
	return w.dialFrom(netip.AddrPort{}, to)
}

func (w *world) dialFrom(source, to netip.AddrPort) *conn {
	w.Helper()
	c, err := w.connect(source, to, patience)
	if err != nil {
		w.Fatalf("connecting to %s: %v", to, err)
	}
	w.Cleanup(c.drop)
	return c
}

// dialTo connects until there is a connection to the member of that number.
func (w *world) dialTo(to netip.AddrPort, n int) *conn {
	w.Helper()
	for range 500 {
		c := w.dial(to)
		if c.member == fmt.Sprintf("m%d", n) {
			return c
		}
		c.drop()
	}
	w.Fatalf("no connection of 500 went to m%d", n)
	return nil
}

// echo says whether the connection works.
func (c *conn) echo() error {
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	if err == nil && line != "ping\n" {
		err = fmt.Errorf("%q came back", line)
	}
	return err
}

// works fails the test unless the connection works.
func (w *world) works(what string, conns ...*conn) {
	w.Helper()
	for _, c := range conns {
		if err := c.echo(); err != nil {
			w.Fatalf("%s: %v", what, err)
		}
	}
}

// cut waits until the connection is at an end.
func (w *world) cut(what string, c *conn) {
	w.Helper()
	w.until(what, func() bool {
		c.SetDeadline(time.Now().Add(time.Second))
		return c.echo() != nil
	})
}

// turnedAway waits for a client's refusal: a reset, instead of a connection or right after it.
func (w *world) turnedAway(source, to netip.AddrPort) {
	w.Helper()
	c, err := w.connect(source, to, patience)
	if err == nil {
		c.drop()
		w.Fatalf("%s answered at %s", c.member, to)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET) {
		w.Errorf("connecting to %s: %v, want refused or reset", to, err)
	}
}

// unserved fails the test if anybody answers.
func (w *world) unserved(source, to netip.AddrPort) {
	w.Helper()
	if c, err := w.connect(source, to, 500*time.Millisecond); err == nil {
		c.drop()
		w.Errorf("%s answered at %s", c.member, to)
	}
}

// spread opens n connections, one after the other's end, and counts who answered.
func (w *world) spread(to netip.AddrPort, n int) map[string]int {
	w.Helper()
	got, err := w.trySpread(to, n)
	w.must(err)
	return got
}

func (w *world) trySpread(to netip.AddrPort, n int) (map[string]int, error) {
	return tally(n, func(int) (string, error) {
		c, err := w.connect(noSource, to, patience)
		if err != nil {
			return "", err
		}
		defer c.drop()
		return c.member, nil
	})
}

// tally counts n answers, got by several goroutines.
func tally(n int, ask func(int) (string, error)) (map[string]int, error) {
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		counts = map[string]int{}
		failed error
		next   = make(chan int, n)
	)
	for i := range n {
		next <- i
	}
	close(next)
	for range 8 {
		all.Go(func() {
			for i := range next {
				who, err := ask(i)
				mu.Lock()
				counts[who]++
				failed = cmp.Or(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return counts, failed
}

// only fails the test unless new connections go to the members of these numbers, and to each of them.
func (w *world) only(to netip.AddrPort, members ...int) {
	w.Helper()
	if err := among(w.spread(to, 30*len(members)), members); err != nil {
		w.Fatalf("connections to %s: %v", to, err)
	}
}

// settles waits until new connections go to the members of these numbers and to each of them; from then on they must.
func (w *world) settles(to netip.AddrPort, members ...int) {
	w.Helper()
	var last error
	// One try may last for patience itself, on a member that hangs.
	if !wait(4*patience, func() bool {
		got, err := w.trySpread(to, 30*len(members))
		last = cmp.Or(err, among(got, members))
		return last == nil
	}) {
		w.Fatalf("connections to %s: %v", to, last)
	}
	w.only(to, members...)
}

func among(got map[string]int, members []int) error {
	want := map[string]bool{}
	for _, n := range members {
		want[fmt.Sprintf("m%d", n)] = true
	}
	for who, n := range got {
		if !want[who] {
			return fmt.Errorf("%d of %v went to %s", n, got, who)
		}
	}
	if len(got) < len(want) {
		return fmt.Errorf("%v, want all of %v", got, members)
	}
	return nil
}

// packets is a client's UDP socket, connected.
type packets struct {
	net.Conn
	sent int
}

// packetsFrom opens a UDP socket, which sends from a source that may be unset.
func (w *world) packetsFrom(source, to netip.AddrPort) *packets {
	w.Helper()
	var d net.Dialer
	if source.IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(source)
	}
	c, err := w.client.Dial(context.Background(), d, "udp", to.String())
	w.must(err)
	w.Cleanup(func() { c.Close() })
	return &packets{Conn: c}
}

// ask sends a datagram and returns who answered to it, and whom that saw.
func (p *packets) ask(most time.Duration) (member, seen string, err error) {
	p.sent++
	mark := fmt.Sprintf("ping%d", p.sent)
	if _, err := io.WriteString(p, mark); err != nil {
		return "", "", err
	}
	p.SetReadDeadline(time.Now().Add(most))
	buf := make([]byte, 2048)
	for {
		n, err := p.Read(buf)
		if err != nil {
			return "", "", err
		}
		if head, ok := strings.CutSuffix(string(buf[:n]), " "+mark); ok { // Others are late answers.
			member, seen, _ = greeting(head)
			return member, seen, nil
		}
	}
}

// answers asks until there is an answer: a datagram may be lost.
func (w *world) answers(p *packets) (member, seen string) {
	w.Helper()
	w.until("an answer over UDP", func() bool {
		var err error
		member, seen, err = p.ask(time.Second)
		return err == nil
	})
	return member, seen
}

// silent fails the test if anybody answers; an ICMP error is no answer.
func (w *world) silent(p *packets) {
	w.Helper()
	for range 3 {
		if member, _, err := p.ask(100 * time.Millisecond); err == nil {
			w.Errorf("%s answered at %s", member, p.RemoteAddr())
		} else if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EHOSTUNREACH) &&
			!errors.Is(err, syscall.ENETUNREACH) {
			w.Error(err)
		}
	}
}

// noSource leaves the choice to the kernel.
var noSource netip.AddrPort

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// dialContext connects from the client, for those who bring their own protocol.
func (w *world) dialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return w.client.Dial(ctx, net.Dialer{KeepAlive: -1}, network, address)
}

// askOnce sends a datagram from a port of its own, and returns who answered. It waits longer where somebody may.
func (w *world) askOnce(source, to netip.AddrPort, may []string) (string, error) {
	c, err := w.client.Dial(context.Background(), net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(source)}, "udp", to.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	most := patience
	if len(may) == 0 {
		most = 50 * time.Millisecond
	}
	who, _, err := (&packets{Conn: c}).ask(most)
	return who, err
}
