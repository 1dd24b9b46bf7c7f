package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// loadParams is one slice of load.
type loadParams struct {
	// Targets are used in turn; one, or both backends where nothing balances.
	Targets []netip.AddrPort
	Path    string
	// Reconnect opens a connection for each request.
	Reconnect bool
	// Connections at a time, on each of the threads.
	Connections int
	Duration    time.Duration
	// CPUs to run a thread on each.
	CPUs []int
}

// loadResult is what came of it.
type loadResult struct {
	Requests, Bytes int
	Seconds         float64
	P50, P99        time.Duration
	Failed          int
	// Failure is the first.
	Failure string
}

// generatorOps are the client's: a thread a processor, with an epoll loop each. wrk does the same, but only
// for whole seconds, against one address, and without the handshake in its latency.
func generatorOps() ops {
	debug.SetGCPercent(-1) // between slices only
	return ops{"load": op(func(p loadParams) (loadResult, error) {
		runtime.GC()
		loops := make([]*loop, len(p.CPUs))
		errs := make(chan error)
		start := make(chan time.Time)
		for i := range loops {
			loops[i] = &loop{loadParams: p, turn: i}
			go func() { errs <- loops[i].run(p.CPUs[i], start, errs) }()
		}
		for range loops {
			if err := <-errs; err != nil { // warm
				return loadResult{}, err
			}
		}
		began := time.Now()
		for range loops {
			start <- began
		}
		for range loops {
			if err := <-errs; err != nil {
				return loadResult{}, err
			}
		}
		return sum(loops, p.Duration), nil
	})}
}

// loop is one thread's share of a slice.
type loop struct {
	loadParams
	turn    int
	poll    int
	conns   []*load
	request []byte
	buf     [256 << 10]byte
	// until is when to stop counting; zero while warming up.
	from, until time.Time

	requests, bytes, failed int
	failure                 string
	// latency counts requests by microsecond, the last one for all that took longer.
	latency [200_001]uint32
}

// load is one connection.
type load struct {
	// index in loop.conns; epoll hands it back.
	index  int32
	fd     int
	began  time.Time
	sent   bool
	got    int
	expect int // 0: not known yet
	warm   bool
}

func (l *loop) run(cpu int, start <-chan time.Time, warm chan<- error) error {
	runtime.LockOSThread() // for good: the thread is pinned
	pin(cpu)
	l.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\n\r\n", l.Path)
	var err error
	if l.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(l.poll)
	defer l.closeAll()
	for i := range l.Connections {
		c := &load{index: int32(i)}
		l.conns = append(l.conns, c)
		if err := l.open(c); err != nil {
			return err
		}
	}
	// Each connection has had an answer before the clock starts.
	if err := l.turnUntil(func(time.Time) bool {
		return !slices.ContainsFunc(l.conns, func(c *load) bool { return !c.warm })
	}); err != nil {
		return err
	}
	warm <- nil
	began := <-start
	l.requests, l.bytes, l.failed, l.latency = 0, 0, 0, [200_001]uint32{}
	l.from, l.until = began, began.Add(l.Duration)
	return l.turnUntil(func(now time.Time) bool { return now.After(l.until) })
}

// patience is how long a connection may make no progress at all before the slice is given up.
const patience = 10 * time.Second

func (l *loop) turnUntil(over func(time.Time) bool) error {
	var events [128]unix.EpollEvent
	last := time.Now()
	for now := last; !over(now); now = time.Now() {
		n, err := unix.EpollWait(l.poll, events[:], 50)
		if err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if n > 0 {
			last = now
		} else if now.Sub(last) > patience {
			return fmt.Errorf("nothing has come from %v for %s; last failure: %q", l.Targets, patience, l.failure)
		}
		for _, e := range events[:n] {
			if err := l.advance(l.conns[e.Pad], e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) open(c *load) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	target := l.Targets[l.turn%len(l.Targets)]
	l.turn++
	*c = load{index: c.index, fd: fd, warm: c.warm, began: time.Now()}
	if err := unix.Connect(fd, sockaddr(target)); err != nil && err != unix.EINPROGRESS {
		return fmt.Errorf("connecting to %s: %w", target, err)
	}
	return unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edge, Fd: int32(fd), Pad: c.index})
}

// advance does what can be done on a connection. Its error is one of this program, not of the connection.
func (l *loop) advance(c *load, e unix.EpollEvent) error {
	if int32(c.fd) != e.Fd {
		return nil // closed meanwhile
	}
	if !c.sent {
		if e.Events&unix.EPOLLOUT == 0 && e.Events&(unix.EPOLLERR|unix.EPOLLHUP) == 0 {
			return nil
		}
		if err := l.send(c); err != nil {
			return l.fail(c, err)
		}
	}
	for {
		n, err := unix.Read(c.fd, l.buf[:])
		switch {
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return l.fail(c, err)
		case n == 0:
			return l.fail(c, fmt.Errorf("closed after %d bytes of an answer", c.got))
		}
		if c.expect == 0 {
			if c.expect = expected(l.buf[:n]); c.expect == 0 {
				return l.fail(c, fmt.Errorf("not an answer: %.40q", l.buf[:n]))
			}
		}
		c.got += n
		if !l.until.IsZero() && l.Path == bigPath {
			l.bytes += n
		}
		if c.got < c.expect {
			continue
		}
		now := time.Now()
		c.warm = true
		if !now.After(l.until) && !c.began.Before(l.from) {
			l.requests++
			l.latency[min(int(now.Sub(c.began)/time.Microsecond), len(l.latency)-1)]++
		}
		if l.Reconnect {
			unix.Close(c.fd)
			return l.open(c)
		}
		c.began = now
		if err := l.send(c); err != nil {
			return l.fail(c, err)
		}
	}
}

func (l *loop) send(c *load) error {
	c.sent, c.got, c.expect = true, 0, 0
	_, err := unix.Write(c.fd, l.request)
	return err
}

// expected is how long an answer will be; 0: it is none.
func expected(head []byte) int {
	for _, r := range [][]byte{smallResponse, closeResponse} {
		if bytes.HasPrefix(r, head[:min(len(head), len(r))]) {
			return len(r)
		}
	}
	if len(head) >= len(bigHead) && bytes.HasPrefix(head, bigHead) {
		return len(bigHead) + bigSize
	}
	return 0
}

func (l *loop) fail(c *load, err error) error {
	l.failed++
	if l.failure == "" {
		l.failure = err.Error()
	}
	unix.Close(c.fd)
	return l.open(c)
}

// closeAll resets what is open, so that nothing of this slice is left in the next.
func (l *loop) closeAll() {
	for _, c := range l.conns {
		unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(c.fd)
	}
}

func sum(loops []*loop, d time.Duration) loadResult {
	r := loadResult{Seconds: d.Seconds()}
	latency := make([]uint32, len(loops[0].latency))
	for _, l := range loops {
		r.Requests += l.requests
		r.Bytes += l.bytes
		r.Failed += l.failed
		if r.Failure == "" {
			r.Failure = l.failure
		}
		for i, n := range l.latency {
			latency[i] += n
		}
	}
	at := func(q float64) time.Duration {
		left := int(q * float64(r.Requests))
		for i, n := range latency {
			if left -= int(n); left < 0 {
				return time.Duration(i) * time.Microsecond
			}
		}
		return 0
	}
	r.P50, r.P99 = at(0.5), at(0.99)
	return r
}
