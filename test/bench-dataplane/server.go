package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// What a backend answers: a small body, on a connection that is kept or closed, or a big one.
const (
	smallPath = "/"
	closePath = "/close"
	bigPath   = "/big"
	bigSize   = 1 << 20
)

var (
	smallResponse = []byte("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n" + string(bytes.Repeat([]byte("x"), 64)))
	closeResponse = []byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 64\r\n\r\n" + string(bytes.Repeat([]byte("x"), 64)))
	bigHead       = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", bigSize)
)

type serveParams struct {
	// HTTP and Who are listened at; a Who connection is told the address it reached, and kept until its client ends it.
	HTTP, Who []netip.AddrPort
	// CPUs to run a thread on each; none: one thread on any.
	CPUs []int
}

// serverOps are those of a backend: no more work than the kernel asks for, so that what is measured is what lies
// between it and the client. Each processor has a thread with sockets and an epoll loop of its own and gets the
// connections that were begun there: whichever backend the client's thread of that processor is sent to, both processors
// have the same to do. With a backend a processor, as many requests more as a hash gives one of them would count
// against what hashes.
func serverOps() ops {
	return ops{"serve": op(func(p serveParams) (nothing, error) {
		cpus := p.CPUs
		if len(cpus) == 0 {
			cpus = []int{-1}
		}
		for _, cpu := range cpus {
			s, err := newServer(p, cpu)
			if err != nil {
				return nothing{}, err
			}
			go s.run(cpu)
		}
		return nothing{}, nil
	})}
}

type server struct {
	poll      int
	big       int
	listeners map[int32]bool // true: who
	conns     map[int32]*served
	buf       [16 << 10]byte
}

// served is a client's connection.
type served struct {
	fd   int
	who  bool
	part []byte // a request that hasn't come whole
	// left of the big body still to be sent.
	left int
}

func newServer(p serveParams, cpu int) (*server, error) {
	s := &server{listeners: map[int32]bool{}, conns: map[int32]*served{}}
	var err error
	if s.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if s.big, err = unix.MemfdCreate("big", unix.MFD_CLOEXEC); err != nil {
		return nil, err
	}
	if _, err := unix.Write(s.big, bytes.Repeat([]byte("y"), bigSize)); err != nil {
		return nil, err
	}
	for who, ats := range map[bool][]netip.AddrPort{false: p.HTTP, true: p.Who} {
		for _, at := range ats {
			if err := s.listen(at, who, cpu); err != nil {
				return nil, fmt.Errorf("listening at %s: %w", at, err)
			}
		}
	}
	return s, nil
}

func (s *server) listen(at netip.AddrPort, who bool, cpu int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if cpu >= 0 {
		if err := errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_INCOMING_CPU, cpu),
		); err != nil {
			return err
		}
	}
	// Inherited by what is accepted.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := unix.Bind(fd, sockaddr(at)); err != nil {
		return err
	}
	if err := unix.Listen(fd, 4096); err != nil {
		return err
	}
	s.listeners[int32(fd)] = who
	return unix.EpollCtl(s.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (s *server) run(cpu int) {
	runtime.LockOSThread()
	pin(cpu)
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(s.poll, events[:], -1)
		if err == unix.EINTR {
			continue
		} else if err != nil {
			fatal(err)
		}
		for _, e := range events[:n] {
			if who, ok := s.listeners[e.Fd]; ok {
				s.accept(int(e.Fd), who)
			} else if c := s.conns[e.Fd]; c != nil && !s.advance(c) {
				delete(s.conns, e.Fd)
				unix.Close(c.fd)
			}
		}
	}
}

func (s *server) accept(from int, who bool) {
	for range 64 {
		fd, _, err := unix.Accept4(from, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		c := &served{fd: fd, who: who}
		if who {
			local, err := unix.Getsockname(fd)
			if err == nil {
				a := local.(*unix.SockaddrInet4).Addr
				_, err = unix.Write(fd, a[:])
			}
			if err != nil {
				unix.Close(fd)
				continue
			}
		}
		s.conns[int32(fd)] = c
		unix.EpollCtl(s.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edge, Fd: int32(fd)})
	}
}

// edge is told once of whatever a connection can do again.
const edge = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// advance does what can be done on a connection; false: it is over.
func (s *server) advance(c *served) bool {
	for {
		if c.left > 0 {
			if again, ok := s.sendBig(c); !again {
				return ok
			}
		}
		n, err := unix.Read(c.fd, s.buf[:])
		if err == unix.EAGAIN {
			return true
		}
		if err != nil || n == 0 {
			return false
		}
		if c.who {
			continue
		}
		request := s.buf[:n]
		if len(c.part) > 0 || !bytes.HasSuffix(request, []byte("\r\n\r\n")) {
			c.part = append(c.part, request...)
			if !bytes.HasSuffix(c.part, []byte("\r\n\r\n")) {
				if len(c.part) > len(s.buf) {
					return false
				}
				continue
			}
			request, c.part = c.part, nil
		}
		switch {
		case bytes.HasPrefix(request, []byte("GET "+closePath+" ")):
			unix.Write(c.fd, closeResponse)
			return false
		case bytes.HasPrefix(request, []byte("GET "+bigPath+" ")):
			if _, err := unix.Write(c.fd, bigHead); err != nil {
				return false
			}
			c.left = bigSize
		default:
			if _, err := unix.Write(c.fd, smallResponse); err != nil {
				return false
			}
		}
	}
}

// sendBig goes on with the big body. again: it is through; else ok says whether to wait or to end.
func (s *server) sendBig(c *served) (again, ok bool) {
	for c.left > 0 {
		at := int64(bigSize - c.left)
		n, err := unix.Sendfile(c.fd, s.big, &at, c.left)
		if err == unix.EAGAIN {
			return false, true
		}
		if err != nil {
			return false, false
		}
		c.left -= n
	}
	return true, true
}

func sockaddr(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// pin keeps the calling thread on one processor; below 0: on any.
func pin(cpu int) {
	if cpu < 0 {
		return
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		fatal(err)
	}
}
