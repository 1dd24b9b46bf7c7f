package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxFiles is how many files one message may carry; the kernel takes 253.
	MaxFiles = 200
	// maxMessage bounds what a peer can make this process allocate.
	maxMessage = 64 << 20
)

// ErrForeign: the other end runs as another user.
var ErrForeign = errors.New("the peer runs as another user")

// Conn is one end. One goroutine may send while another receives; any may close it.
type Conn struct {
	c *net.UnixConn
	// in is what was read and not yet taken.
	in []byte

	mu sync.Mutex
	// files came with it.
	files  []int
	closed bool
}

// Listener accepts Conns.
type Listener struct{ l *net.UnixListener }

// Listen makes the socket name in a directory anew, for this user only.
func Listen(dir, name string) (*Listener, error) {
	var out *Listener
	err := within(dir, func(at string) error {
		path := filepath.Join(at, name)
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		// The path leads through a descriptor that is closed soon; and a successor makes the socket anew under the same name.
		l.SetUnlinkOnClose(false)
		if err := os.Chmod(path, 0o600); err != nil {
			l.Close()
			return err
		}
		out = &Listener{l}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", filepath.Join(dir, name), err)
	}
	return out, nil
}

// within runs f with a short name for a directory: a socket's path may have 107 bytes only.
func within(dir string, f func(at string) error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	raw, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f("/proc/self/fd/" + strconv.Itoa(int(fd))) }); err != nil {
		return err
	}
	return failed
}

// Accept waits for the next peer of the same user, or root; others are turned away.
func (l *Listener) Accept() (*Conn, error) {
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if own(c) == nil {
			return &Conn{c: c}, nil
		}
		c.Close()
	}
}

// Close stops to listen. The socket's name stays.
func (l *Listener) Close() error { return l.l.Close() }

// Dial connects to the socket name in a directory.
func Dial(ctx context.Context, dir, name string) (*Conn, error) {
	var out *Conn
	err := within(dir, func(at string) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", filepath.Join(at, name))
		if err != nil {
			return err
		}
		u := c.(*net.UnixConn)
		if err := own(u); err != nil {
			u.Close()
			return err
		}
		out = &Conn{c: u}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", filepath.Join(dir, name), err)
	}
	return out, nil
}

func own(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("%w, the one with ID %d: run this as its user", ErrForeign, peer.Uid)
	}
	return nil
}

// SetDeadline bounds all that is sent and received from now on; the zero time: not at all.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Close ends the Conn, with what was received and not taken.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, fd := range c.files {
		unix.Close(fd)
	}
	c.files = nil
	return c.c.Close()
}

// Send sends a message and up to MaxFiles files, which stay the caller's.
func (c *Conn) Send(message any, files ...int) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	n, _, err := c.c.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = c.c.Write(b[n:])
	}
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

// Receive takes the next message, and as many of the files that came as files
// says after it was decoded. They belong to the caller, also with an error.
func (c *Conn) Receive(message any, files func() int) ([]int, error) {
	if err := c.fill(4); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(c.in))
	if size > maxMessage {
		return nil, fmt.Errorf("receiving: message of %d bytes", size)
	}
	if err := c.fill(4 + size); err != nil {
		return nil, err
	}
	err := json.Unmarshal(c.in[4:4+size], message)
	c.in = append([]byte(nil), c.in[4+size:]...)
	if err != nil {
		return nil, fmt.Errorf("decoding a message: %w", err)
	}
	n := files()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > len(c.files) {
		return nil, fmt.Errorf("receiving: %d files came, %d were said to", len(c.files), n)
	}
	out := c.files[:n:n]
	c.files = c.files[n:]
	return out, nil
}

// fill reads until there are n bytes.
func (c *Conn) fill(n int) error {
	rights := make([]byte, unix.CmsgSpace(MaxFiles*4))
	buffer := make([]byte, 64<<10)
	for len(c.in) < n {
		got, oobn, _, _, err := c.c.ReadMsgUnix(buffer, rights)
		if oobn > 0 {
			if err := c.keep(rights[:oobn]); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		if got == 0 {
			return fmt.Errorf("receiving: %w", net.ErrClosed)
		}
		c.in = append(c.in, buffer[:got]...)
	}
	return nil
}

// keep takes what came in, which is closed with c.
func (c *Conn) keep(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return fmt.Errorf("receiving files: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("receiving files: %w", err)
		}
		c.mu.Lock()
		c.files = append(c.files, fds...) // close-on-exec: ReadMsgUnix asks for it
		closed := c.closed
		c.mu.Unlock()
		if closed { // Nobody will take them.
			c.Close()
		}
	}
	return nil
}
