package builtin

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sock is a connected TCP socket. Of what package net does for one it does
// without: what is set on each socket though listeners hand it on, names that
// nobody asks for, and a goroutine for each connect.
type sock struct {
	*os.File
	raw syscall.RawConn
}

// newSock takes a socket that does not block.
func newSock(fd int) (*sock, error) {
	f := os.NewFile(uintptr(fd), "tcp")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &sock{f, raw}, nil
}

// CloseWrite says to the other end that this was all.
func (s *sock) CloseWrite() {
	s.raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
}

// reset closes with a reset rather than an end.
func (s *sock) reset() {
	s.raw.Control(func(fd uintptr) {
		unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	s.Close()
}

// over says that a connection was reset or given up: of an error of a splice
// nobody can tell which side it is of, and the kernel tells of a reset only once.
func (s *sock) over() bool {
	state, failed := 0, error(nil)
	err := s.raw.Control(func(fd uintptr) {
		// The first byte of TCP_INFO.
		state, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return err != nil || failed != nil || state&0xff == unix.BPF_TCP_CLOSE
}

// dialTCP connects within a time.
func dialTCP(to netip.AddrPort, within time.Duration) (*sock, error) {
	family, address := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := setStream(fd); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	err = unix.Connect(fd, address)
	if err != nil && !pending(err) {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	s, failed := newSock(fd)
	if failed != nil || err == nil {
		return s, failed
	}
	s.SetWriteDeadline(time.Now().Add(within))
	// Asked again, the kernel says what has become of it.
	failed = s.raw.Write(func(fd uintptr) bool {
		err = unix.Connect(int(fd), address)
		return !pending(err)
	})
	switch {
	case failed != nil:
		err = failed
	case err == unix.EISCONN:
		err = nil
	}
	if err != nil {
		s.Close()
		return nil, os.NewSyscallError("connect", err)
	}
	s.SetWriteDeadline(time.Time{})
	return s, nil
}

// pending says that a connect is on its way.
func pending(err error) bool {
	return err == unix.EINPROGRESS || err == unix.EALREADY || err == unix.EINTR
}

// setStream sets what listening sockets hand on to accepted ones, and connecting ones need.
func setStream(fd int) error {
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepAlive.Idle/time.Second)),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepAlive.Interval/time.Second)),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAlive.Count),
	)
}

func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}
