package builtin

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

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
	s.raw.Control(func(fd uintptr) { syscall.RawSyscall(syscall.SYS_SHUTDOWN, fd, syscall.SHUT_WR, 0) })
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
	family := unix.AF_INET
	if !to.Addr().Is4() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := setStream(fd); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	err = connectNow(fd, to)
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
		err = connectNow(int(fd), to)
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

// readNow and writeNow are system calls of sockets that don't block. The
// scheduler is not told of them: it would take the processor away from a call that takes
// the kernel some microseconds (a write sends, and on loopback receives), and give it to another thread.
func readNow(fd uintptr, b []byte) (int, error) { return now(syscall.SYS_READ, fd, b) }

func writeNow(fd uintptr, b []byte) (int, error) { return now(syscall.SYS_WRITE, fd, b) }

func now(call, fd uintptr, b []byte) (int, error) {
	for {
		n, _, failed := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch failed {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, failed
		}
	}
}

// connectNow is readNow's like.
func connectNow(fd int, to netip.AddrPort) error {
	port := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, to.Port()))
	var failed syscall.Errno
	if to.Addr().Is4() {
		a := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port, Addr: to.Addr().As4()}
		_, _, failed = syscall.RawSyscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
	} else {
		a := unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: port, Addr: to.Addr().As16(), Scope_id: zoneOf(to.Addr())}
		_, _, failed = syscall.RawSyscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
	}
	if failed != 0 {
		return failed
	}
	return nil
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
