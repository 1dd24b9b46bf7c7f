package traffic

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Timeout bounds a request, from before the connect to the end of the answer.
const Timeout = 2 * time.Second

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 10

// failureError says why a request failed, in a kind that can be counted.
type failureError struct {
	kind Failure
	err  error
}

func (e *failureError) Error() string { return string(e.kind) + ": " + e.err.Error() }
func (e *failureError) Unwrap() error { return e.err }

// KindOf returns the kind of an error of Ask and Hold.
func KindOf(err error) Failure {
	var f *failureError
	if errors.As(err, &f) {
		return f.kind
	}
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return FailureRefused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return FailureTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FailureReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return FailureClosed
	}
	return FailureOther
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 2048) }}

// Ask makes one request: a new connection, an HTTP/1.1 GET of path, the whole
// answer, all within Timeout. It never tries again.
func Ask(ctx context.Context, to netip.AddrPort, path string) (Answer, error) {
	return ask(ctx, plainly, to, path)
}

// plainly dials from this host.
func plainly(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func ask(ctx context.Context, dial Dial, to netip.AddrPort, path string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	conn, r, resp, err := open(ctx, dial, to, path, "Connection: close\r\n")
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	defer readers.Put(r)
	if resp.StatusCode != http.StatusOK {
		return Answer{}, &failureError{FailureAnswer, fmt.Errorf("status %s", resp.Status)}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Answer{}, err
	}
	return parse(body)
}

// open connects and returns the answer's head. The caller closes the connection
// and, after the last read, gives the reader back.
func open(ctx context.Context, dial Dial, to netip.AddrPort, path, header string) (net.Conn, *bufio.Reader, *http.Response, error) {
	conn, err := dial(ctx, "tcp", to.String())
	if err != nil {
		return nil, nil, nil, err
	}
	r := readers.Get().(*bufio.Reader)
	r.Reset(conn)
	resp, err := func() (*http.Response, error) {
		deadline, _ := ctx.Deadline()
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+to.String()+"\r\n"+header+"\r\n"); err != nil {
			return nil, err
		}
		if _, err := r.Peek(1); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil && KindOf(err) == FailureOther {
			return nil, &failureError{FailureAnswer, err}
		}
		return resp, err
	}()
	if err != nil {
		conn.Close()
		readers.Put(r)
		return nil, nil, nil, err
	}
	return conn, r, resp, nil
}

func parse(body []byte) (Answer, error) {
	a := Answer{}
	if err := json.Unmarshal(body, &a); err != nil {
		return a, &failureError{FailureAnswer, fmt.Errorf("%w in %.80q", err, body)}
	}
	if a.Pod == "" || a.Cluster == "" {
		return a, &failureError{FailureAnswer, fmt.Errorf("no Pod or cluster in %.80q", body)}
	}
	return a, nil
}
