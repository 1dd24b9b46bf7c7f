package health

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// ask makes one check; nil means that the address can take connections.
func ask(p lb.Probe) error {
	deadline := time.Now().Add(p.Check.Timeout)
	address := netip.AddrPortFrom(p.Address, p.Check.Port)
	d := dialer(p.Check)
	conn, err := d.DialTCP(context.Background(), "tcp", netip.AddrPort{}, address)
	if err != nil {
		return fmt.Errorf("connecting: %w", plain(err))
	}
	// A reset leaves nothing behind on either side, no TIME_WAIT either.
	defer conn.Close()
	if err := conn.SetLinger(0); err != nil {
		return fmt.Errorf("connecting: %w", plain(err))
	}
	return verdict(conn, address.String(), p.Check, deadline)
}

// dialer of a check's connections.
func dialer(c lb.Check) net.Dialer {
	d := net.Dialer{Timeout: c.Timeout, KeepAlive: -1}
	if c.Lenient {
		d.Timeout = min(d.Timeout, lenientConnect)
	}
	return d
}

// verdict is a check's part after connecting.
func verdict(conn net.Conn, address string, c lb.Check, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("connecting: %w", plain(err))
	}
	if v := c.ProxyProtocol; v != 0 {
		header, ok := nobody(v)
		if !ok {
			return fmt.Errorf("version %d of the PROXY protocol is not known", v)
		}
		if _, err := io.WriteString(conn, header); err != nil {
			return fmt.Errorf("sending the PROXY header: %w", plain(err))
		}
	}
	if c.Kind == lb.CheckTCP {
		return nil
	}
	err := askOver(conn, address, c)
	if said := badStatus(0); c.Lenient && !errors.Is(err, errTimedOut) && (!errors.As(err, &said) || said < 500) {
		return nil
	}
	return err
}

// lenientConnect is how long a Lenient check waits for a connection, however long for the answer: a member that is dead is found out
// as soon as by a check that only connects.
const lenientConnect = time.Second

// errTimedOut is of a member that hangs.
var errTimedOut = errors.New("timed out")

// badStatus is of a member that answers in HTTP.
type badStatus uint64

func (s badStatus) Error() string { return fmt.Sprintf("status %d", uint64(s)) }

// askOver asks in what is spoken above TCP.
func askOver(conn net.Conn, address string, c lb.Check) error {
	switch c.Kind {
	case lb.CheckHTTP:
		return askHTTP(conn, address, c)
	case lb.CheckHTTPS:
		// A load balancer doesn't know the name that the member's certificate is for, nor who signed it: as kubelet does, the answer counts.
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := secure.Handshake(); err != nil {
			return fmt.Errorf("shaking hands: %w", plain(err))
		}
		return askHTTP(secure, address, c)
	}
	return fmt.Errorf("check %q is not known", c.Kind)
}

// nobody is the PROXY header of a connection that is made for nobody else: a
// member takes it for the proxy's own.
func nobody(version int) (string, bool) {
	switch version {
	case 1:
		return "PROXY UNKNOWN\r\n", true
	case 2:
		// Signature, version 2 and command LOCAL, family unspecified, no address.
		return "\r\n\r\n\x00\r\nQUIT\n" + "\x20\x00\x00\x00", true
	}
	return "", false
}

// askHTTP asks and reads the status line; the rest of the answer doesn't matter.
func askHTTP(conn io.ReadWriter, host string, c lb.Check) error {
	path := c.Path
	if path == "" {
		path = "/"
	}
	if path[0] != '/' || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("path %q can't be asked for", path)
	}
	request := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: fairlead-health\r\nAccept: */*\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		return fmt.Errorf("asking: %w", plain(err))
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, 4096), 256).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("reading the answer: %w", plain(err))
	}
	version, rest, _ := strings.Cut(string(line), " ")
	code, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	status, err := strconv.ParseUint(code, 10, 31)
	if _, _, known := http.ParseHTTPVersion(version); err != nil || len(code) != 3 || !known {
		return errors.New("the answer is not HTTP")
	}
	if status >= 200 && status <= 399 || alive(c.Alive, code) {
		return nil
	}
	return badStatus(status)
}

// alive says whether code is in list, which is separated by commas.
func alive(list, code string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one == code {
			return true
		}
	}
	return false
}

// plain leaves out of err what reports show beside it: address and system call.
func plain(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errTimedOut
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
