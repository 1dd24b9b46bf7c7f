package builtin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// keepAlive finds out within a minute and a half that a peer is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
	// acceptAtOnce clients are taken without looking whether the listener was closed.
	acceptAtOnce = 64
)

// listener is one socket of this host. It is open from the Apply that brings it to the one that takes it away.
type listener struct {
	socket lb.Socket
	front  atomic.Pointer[frontend]
	closed chan struct{}
	// One of ln and udp is there once it could be opened; under Dataplane.mu.
	ln  *acceptor
	udp *datagrams
}

func newListener(s lb.Socket) *listener {
	return &listener{socket: s, closed: make(chan struct{})}
}

// open binds l's socket and starts to accept.
func (d *Dataplane) open(l *listener) error {
	if l.socket.Protocol == lb.UDP {
		return d.openDatagrams(l)
	}
	if f := d.heir(l.socket); f != nil {
		return d.listen(l, f)
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: inherit}
	lc.SetMultipathTCP(false) // Such connections can't be spliced.
	address := netip.AddrPortFrom(d.o.bindAddress(l.socket.Address), l.socket.Port)
	ln, err := lc.Listen(context.Background(), "tcp", address.String())
	if err != nil {
		return err
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	return d.listen(l, f)
}

// acceptor is a listening socket.
type acceptor struct {
	*os.File
	raw syscall.RawConn
}

func (d *Dataplane) listen(l *listener, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return err
	}
	ln := &acceptor{f, raw}
	l.ln = ln
	d.metrics.listeners.Inc()
	d.running.Add(1)
	go d.accept(l, ln)
	return nil
}

func (d *Dataplane) openDatagrams(l *listener) error {
	if u := d.ending[l.socket]; u != nil {
		delete(d.ending, l.socket)
		if u.revive(l) {
			l.udp = u
			return nil
		}
	}
	if f := d.heir(l.socket); f != nil {
		conn, err := filePacketConn(f)
		if err != nil {
			return err
		}
		l.udp = d.newDatagrams(l, conn)
		return nil
	}
	address := netip.AddrPortFrom(d.o.bindAddress(l.socket.Address), l.socket.Port)
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return err
	}
	l.udp = d.newDatagrams(l, conn)
	return nil
}

// inherit sets on the listening socket what Linux hands on to accepted ones, so that nobody need set it on each.
func inherit(_, _ string, raw syscall.RawConn) error {
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = setStream(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// close refuses clients from now on; UDP flows go on. Its frontend is left to the caller.
func (l *listener) close() {
	select {
	case <-l.closed:
		return
	default:
	}
	close(l.closed)
	if l.ln != nil {
		l.ln.Close()
	}
	if l.udp != nil {
		l.udp.end()
	}
}

func (d *Dataplane) accept(l *listener, ln *acceptor) {
	defer d.running.Done()
	defer d.metrics.listeners.Dec()
	pause := firstBackoff
	var failed error
	take := func(fd uintptr) bool {
		for range acceptAtOnce {
			var client int
			var from unix.Sockaddr
			client, from, failed = unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			switch failed {
			case nil:
				d.running.Add(1)
				go d.serve(l, client, addrPortOf(from))
			case unix.EAGAIN:
				return false
			case unix.EINTR, unix.ECONNABORTED:
			default:
				return true
			}
		}
		return true
	}
	for {
		if ln.raw.Read(take) != nil {
			return // It is closed.
		}
		if failed == nil || failed == unix.EINTR || failed == unix.ECONNABORTED {
			pause = firstBackoff
			continue
		}
		// Most likely there are no files left: those that are open must end first.
		d.metrics.acceptErrors.Inc()
		if d.failedAccept.now() {
			d.log.Error("accepting clients failed, going on", "socket", l.socket.String(), "err", failed)
		}
		select {
		case <-l.closed:
		case <-time.After(pause):
			pause = min(2*pause, lastBackoff)
		}
	}
}

// bindProblem says why a frontend's socket can't be opened, and what to do.
func (o *Options) bindProblem(id lb.FrontendID, err error) lb.Problem {
	bind := o.bindAddress(id.Address)
	at := netip.AddrPortFrom(bind, id.Port).String()
	if bind != id.Address {
		at = fmt.Sprintf("%s (where %s is served)", at, netip.AddrPortFrom(id.Address, id.Port))
	}
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return problem(id, "spec.ports.port", reasonPortNotPermitted,
			fmt.Sprintf("the proxy may not bind %s; use a port above 1023, or give the proxy CAP_NET_BIND_SERVICE", at))
	case errors.Is(err, syscall.EADDRINUSE):
		return problem(id, "spec.ports.port", reasonPortInUse,
			fmt.Sprintf("another program on the proxy's host listens on %s; stop it, or use another port", at))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return problem(id, "status.addresses", reasonAddressNotLocal,
			fmt.Sprintf("address %s is not on the proxy's host; add it there, or start the proxy with --bind-as", bind))
	case scarce(err):
		return problem(id, "spec.ports.port", reasonPending,
			fmt.Sprintf("the proxy has no files or memory left to open %s; it tries again, raise its limit of open files", at))
	}
	return problem(id, "spec.ports.port", reasonPending,
		fmt.Sprintf("the proxy can't open %s: %v; it tries again", at, err))
}

// scarce says that this host, not the other side, is why a system call failed.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}
