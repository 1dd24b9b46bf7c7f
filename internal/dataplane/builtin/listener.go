package builtin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// keepAlive finds out within a minute and a half that a peer is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = 500 * time.Millisecond
)

// listener is one socket of this host. It is open from the Apply that brings it to the one that takes it away.
type listener struct {
	socket lb.Socket
	front  atomic.Pointer[frontend]
	closed chan struct{}
	// One of ln and udp is there once it could be opened; under Dataplane.mu.
	ln  *net.TCPListener
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
		ln, err := fileListener(f)
		if err != nil {
			return err
		}
		d.listen(l, ln)
		return nil
	}
	lc := net.ListenConfig{KeepAlive: -1, Control: inherit}
	lc.SetMultipathTCP(false) // Such connections can't be spliced.
	address := netip.AddrPortFrom(d.o.bindAddress(l.socket.Address), l.socket.Port)
	ln, err := lc.Listen(context.Background(), "tcp", address.String())
	if err != nil {
		return err
	}
	d.listen(l, ln.(*net.TCPListener))
	return nil
}

func (d *Dataplane) listen(l *listener, ln *net.TCPListener) {
	l.ln = ln
	d.metrics.listeners.Inc()
	d.running.Add(1)
	go d.accept(l, ln)
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
	var err error
	set := func(level, option, value int, fd uintptr) {
		if err == nil {
			err = syscall.SetsockoptInt(int(fd), level, option, value)
		}
	}
	if failed := raw.Control(func(fd uintptr) {
		set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1, fd)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, int(keepAlive.Idle/time.Second), fd)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, int(keepAlive.Interval/time.Second), fd)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAlive.Count, fd)
	}); failed != nil {
		return failed
	}
	return err
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

func (d *Dataplane) accept(l *listener, ln *net.TCPListener) {
	defer d.running.Done()
	defer d.metrics.listeners.Dec()
	pause := firstBackoff
	for {
		client, err := ln.AcceptTCP()
		switch {
		case err == nil:
			pause = firstBackoff
			d.running.Add(1)
			go d.serve(l, client)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		// Most likely there are no files left: those that are open must end first.
		d.metrics.acceptErrors.Inc()
		if d.failedAccept.now() {
			d.log.Error("accepting clients failed, going on", "socket", l.socket.String(), "err", err)
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
