package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	headerLen = unix.NLMSG_HDRLEN
	// patience bounds the wait for one answer of the kernel, which answers at once.
	patience = 30 * time.Second
)

// Conn is a netlink socket. It may be used by several goroutines, one after the other.
type Conn struct {
	mu  sync.Mutex
	fd  int
	seq uint32
	in  []byte
}

// Dial opens a socket of a netlink family (unix.NETLINK_NETFILTER, …) in the network namespace of the calling thread.
func Dial(family int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	c := &Conn{fd: fd, in: make([]byte, 32<<10)}
	if family == unix.NETLINK_NETFILTER {
		c.in = make([]byte, 256<<10)
	}
	if err := c.prepare(family); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("preparing a netlink socket: %w", err)
	}
	return c, nil
}

func (c *Conn) prepare(family int) error {
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for _, option := range []int{unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, option, 1); err != nil {
			return err
		}
	}
	t := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &t); err != nil {
		return err
	}
	if family != unix.NETLINK_NETFILTER {
		return nil
	}
	// A batch is one message to the socket, however long; answers to it wait in the other buffer.
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 256<<20); err != nil {
		return fmt.Errorf("making room for large batches (this needs CAP_NET_ADMIN): %w", err)
	}
	return unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
}

// Close closes the socket.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}

// message is one message of the kernel: its head, and what follows it.
type message struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

func (c *Conn) send(b []byte) error {
	if c.fd < 0 {
		return unix.EBADF
	}
	for {
		err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads messages until each says that it was the last.
func (c *Conn) receive(each func(message) (last bool, err error)) error {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.in, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the kernel's answer: %w", err)
		}
		if n > len(c.in) {
			return fmt.Errorf("the kernel's answer has %d bytes, more than %d", n, len(c.in))
		}
		for b := c.in[:n]; len(b) >= headerLen; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < headerLen || size > len(b) {
				return errors.New("the kernel's answer is malformed")
			}
			last, err := each(message{
				kind: binary.NativeEndian.Uint16(b[4:]), flags: binary.NativeEndian.Uint16(b[6:]),
				seq: binary.NativeEndian.Uint32(b[8:]), body: b[headerLen:size],
			})
			if err != nil || last {
				return err
			}
			b = b[min(align(size), len(b)):]
		}
	}
}

func appendHeader(b []byte, kind, flags uint16, seq uint32) []byte {
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	return binary.NativeEndian.AppendUint32(b, 0)
}

func (c *Conn) request(kind, flags uint16, head, attrs []byte) (seq uint32, err error) {
	c.seq++
	b := appendHeader(nil, kind, flags|unix.NLM_F_REQUEST, c.seq)
	b = append(append(b, head...), attrs...)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return c.seq, c.send(b)
}

// errnoOf reads an NLMSG_ERROR's body, whose first number is 0 for an acknowledgement.
func errnoOf(body []byte) error {
	if len(body) < 4 {
		return errors.New("the kernel's answer is malformed")
	}
	if n := int32(binary.NativeEndian.Uint32(body)); n != 0 {
		return unix.Errno(-n)
	}
	return nil
}

// Do makes one request (head is its family's header) and waits until it is done.
func (c *Conn) Do(kind, flags uint16, head []byte, attrs Attrs) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq, err := c.request(kind, flags|unix.NLM_F_ACK, head, attrs)
	if err != nil {
		return err
	}
	return c.receive(func(m message) (bool, error) {
		if m.seq != seq || m.kind != unix.NLMSG_ERROR {
			return false, nil
		}
		return true, errnoOf(m.body)
	})
}

// Get asks for one thing and calls each with it.
func (c *Conn) Get(kind uint16, head []byte, attrs Attrs, headLen int, each func(head []byte, attrs Attrs)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq, err := c.request(kind, 0, head, attrs)
	if err != nil {
		return err
	}
	return c.receive(func(m message) (bool, error) {
		switch {
		case m.seq != seq:
			return false, nil
		case m.kind == unix.NLMSG_ERROR:
			return true, errnoOf(m.body)
		case len(m.body) < headLen:
			return true, errors.New("the kernel's answer is malformed")
		}
		each(m.body[:headLen], Attrs(m.body[headLen:]))
		return true, nil
	})
}

// Dump asks for a list and calls each with every entry: its head, of headLen bytes, and its attributes, which are
// valid until each returns. What each returns as an error is returned once the dump has ended. With ErrInterrupted entries may be missing.
func (c *Conn) Dump(kind uint16, head []byte, attrs Attrs, headLen int, each func(head []byte, attrs Attrs) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq, err := c.request(kind, unix.NLM_F_DUMP, head, attrs)
	if err != nil {
		return err
	}
	var failed error
	interrupted := false
	err = c.receive(func(m message) (bool, error) {
		switch {
		case m.seq != seq:
			return false, nil
		case m.kind == unix.NLMSG_ERROR:
			return true, errnoOf(m.body)
		case m.kind == unix.NLMSG_DONE:
			return true, nil
		case len(m.body) < headLen:
			failed = errors.New("the kernel's answer is malformed")
		case failed == nil:
			failed = each(m.body[:headLen], Attrs(m.body[headLen:]))
		}
		interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
		return false, nil
	})
	if interrupted {
		err = errors.Join(err, ErrInterrupted)
	}
	return errors.Join(err, failed)
}

// ErrInterrupted says that what was dumped changed meanwhile; ask again.
var ErrInterrupted = errors.New("the list changed while it was read")
