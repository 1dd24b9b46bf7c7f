package main

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the machine's own clock, the same for all processes, in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		fatal(err)
	}
	return t.Nano()
}

// probePause lies between two probes, so that they leave the processors to what they wait for.
const probePause = 100 * time.Microsecond

// How long a probe waits for its member to speak: long enough for a busy machine, where it will; where it
// may be refused, silence says nothing, as of a SYN that met a socket about to be closed, and the next probe is made.
const (
	slow  = time.Second
	brief = 10 * time.Millisecond
)

var errSilent = errors.New("no answer")

// watchParams say what to wait for: a frontend that answers, or answers no more, or flows that go to a member, or elsewhere.
type watchParams struct {
	From   netip.Addr
	To     netip.AddrPort
	Member netip.Addr
	// Ports of the client whose flows are Member's; with them Want says whether they are to go there.
	// Without, it says whether To is to answer at all.
	Ports []uint16
	Want  bool
}

// watchResult is when the change was there.
type watchResult struct {
	// Last is when the last probe began that found things as before; First is when the first had ended that found them changed.
	Last, First int64
	// Relapses are probes after First that found things as before.
	Relapses int
}

type flowsParams struct {
	From   netip.Addr
	To     netip.AddrPort
	Member netip.Addr
	Count  int
}

// probeOps are those of a client that watches a change take effect, with connections alone.
func probeOps() ops {
	p := &prober{}
	return ops{
		"flows": op(p.flows),
		"watch": op(p.watch),
		"await": op(p.await),
	}
}

type prober struct {
	result chan watchResult
	failed chan error
	// next port for frontends; used flows of this watch.
	next uint16
	used int
}

// flows finds ports of the client whose connections go to a member.
func (p *prober) flows(f flowsParams) ([]uint16, error) {
	var out []uint16
	for port := uint16(20000); port < 60000 && len(out) < f.Count; port++ {
		who, err := ask(netip.AddrPortFrom(f.From, port), f.To, slow)
		if err != nil {
			return nil, fmt.Errorf("connecting from port %d: %w", port, err)
		}
		if who == f.Member {
			out = append(out, port)
		}
	}
	if len(out) < f.Count {
		return nil, fmt.Errorf("%d flows go to %s, want %d", len(out), f.Member, f.Count)
	}
	return out, nil
}

// watch begins to watch, and returns once it has seen that nothing has changed yet.
func (p *prober) watch(w watchParams) (nothing, error) {
	p.used = 0
	before, err := p.look(w)
	for deadline := time.Now().Add(patience); errors.Is(err, errSilent) && time.Now().Before(deadline); {
		before, err = p.look(w)
	}
	if err != nil {
		return nothing{}, err
	}
	if before == w.Want {
		return nothing{}, errors.New("things are as wanted before the change")
	}
	p.result, p.failed = make(chan watchResult, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if r, err := p.follow(w); err != nil {
			p.failed <- err
		} else {
			p.result <- r
		}
	}()
	return nothing{}, nil
}

func (p *prober) follow(w watchParams) (watchResult, error) {
	r := watchResult{}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(probePause) {
		began := monotonic()
		is, err := p.look(w)
		switch {
		case errors.Is(err, errSilent):
		case err != nil:
			return r, err
		case is != w.Want:
			r.Last = began
		default:
			r.First = monotonic()
			return r, p.relapses(w, &r.Relapses)
		}
	}
	return r, fmt.Errorf("the change has had no effect for %s", patience)
}

// relapses counts connections that go the old way although one has gone the new. No flow is used twice: conntrack may
// remember where it went before.
func (p *prober) relapses(w watchParams, n *int) error {
	for range 32 {
		if len(w.Ports) > 0 && p.used >= len(w.Ports) {
			return nil
		}
		is, err := p.look(w)
		if errors.Is(err, errSilent) {
			continue
		} else if err != nil {
			return err
		}
		if is != w.Want {
			*n++
		}
	}
	return nil
}

func (p *prober) await(nothing) (watchResult, error) {
	select {
	case r := <-p.result:
		return r, nil
	case err := <-p.failed:
		return watchResult{}, err
	}
}

// look makes one connection and says whether it went where it is to go in the end, or would have before.
func (p *prober) look(w watchParams) (bool, error) {
	if len(w.Ports) == 0 {
		// A port of its own for each, so that nothing remembers the one before.
		p.next = (p.next + 1) % 40000
		_, err := ask(netip.AddrPortFrom(w.From, 20000+p.next), w.To, brief)
		return err == nil, silence(err)
	}
	port := w.Ports[p.used%len(w.Ports)]
	p.used++
	who, err := ask(netip.AddrPortFrom(w.From, port), w.To, slow)
	if err != nil {
		return false, fmt.Errorf("a connection failed during the change: %v", err)
	}
	return who == w.Member, nil
}

// silence is err if it is that.
func silence(err error) error {
	if errors.Is(err, errSilent) {
		return err
	}
	return nil
}

// ask connects, reads which member it reached, and resets the connection.
func ask(from, to netip.AddrPort, wait time.Duration) (netip.Addr, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, err
	}
	defer unix.Close(fd)
	return meet(fd, from, to, wait)
}

// meet connects a socket and reads which member it reached.
func meet(fd int, from, to netip.AddrPort, wait time.Duration) (netip.Addr, error) {
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Bind(fd, sockaddr(from)),
	); err != nil {
		return netip.Addr{}, fmt.Errorf("binding to %s: %w", from, err)
	}
	if err := unix.Connect(fd, sockaddr(to)); err != nil && err != unix.EINPROGRESS {
		return netip.Addr{}, err
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return netip.Addr{}, fmt.Errorf("%s: %w", to, errSilent)
		}
		n, err := unix.Poll(poll, int(left/time.Millisecond)+1)
		if err == unix.EINTR || n == 0 {
			continue
		} else if err != nil {
			return netip.Addr{}, err
		}
		break
	}
	var a [4]byte
	n, err := unix.Read(fd, a[:])
	if err != nil {
		return netip.Addr{}, err
	}
	if n != len(a) {
		return netip.Addr{}, fmt.Errorf("%s closed the connection", to)
	}
	return netip.AddrFrom4(a), nil
}

// pause sleeps without Go's timers, whose wake-ups vary.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&t, nil)
}
