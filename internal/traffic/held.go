package traffic

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// pingEvery is the time between two pings on a held connection.
const pingEvery = time.Second

// ping is what is sent, and must come back.
const ping = "ping\n"

// Held is a set of open connections that exchange a ping each second.
type Held struct {
	count  int
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu   sync.Mutex
	lost []string
}

// Hold opens Service.Held connections, its Ways in turn, and returns when each has
// had its first answer. An error says that one could not be opened.
func Hold(ctx context.Context, s Service) (*Held, error) {
	ctx, cancel := context.WithCancel(ctx)
	h := &Held{count: s.Held, cancel: cancel}
	errs := make(chan error, s.Held)
	for i := range s.Held {
		way := s.Ways[i%len(s.Ways)]
		h.all.Go(func() {
			conn, r, who, err := h.open(ctx, s, way)
			errs <- err
			if err == nil {
				h.keep(ctx, conn, r, fmt.Sprintf("%s at %s through %s", who.Pod, who.Node, way.Name), i)
			}
		})
	}
	for range s.Held {
		if err := <-errs; err != nil {
			h.Close()
			return nil, fmt.Errorf("holding %d connections to %s: %w", s.Held, s.Name, err)
		}
	}
	return h, nil
}

func (h *Held) open(ctx context.Context, s Service, way Way) (net.Conn, *bufio.Reader, Answer, error) {
	opening, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	conn, r, resp, err := open(opening, s.dial(way), way.Address, "/hold", "Connection: Upgrade\r\nUpgrade: echo\r\n")
	if err != nil {
		return nil, nil, Answer{}, err
	}
	who, err := func() (Answer, error) {
		if resp.StatusCode != http.StatusSwitchingProtocols {
			return Answer{}, &failureError{FailureAnswer, fmt.Errorf("status %s", resp.Status)}
		}
		line, err := r.ReadBytes('\n')
		if err != nil {
			return Answer{}, err
		}
		who, err := parse(line)
		if err == nil && s.Allow != nil {
			if why := s.Allow(who.Identity, time.Now()); why != "" {
				err = &failureError{FailureWrongPod, fmt.Errorf("%s", why)}
			}
		}
		return who, err
	}()
	if err != nil {
		conn.Close()
		readers.Put(r)
		return nil, nil, Answer{}, err
	}
	return conn, r, who, nil
}

// keep pings until ctx ends or the connection does.
func (h *Held) keep(ctx context.Context, conn net.Conn, r *bufio.Reader, name string, number int) {
	defer readers.Put(r)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer conn.Close()
	defer stop()
	// Not all in the same moment.
	timer := time.NewTimer(pingEvery * time.Duration(number) / time.Duration(h.count))
	defer timer.Stop()
	opened, back := time.Now(), make([]byte, len(ping))
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := conn.SetDeadline(time.Now().Add(Timeout))
		if err == nil {
			_, err = io.WriteString(conn, ping)
		}
		if err == nil {
			_, err = io.ReadFull(r, back)
		}
		if err == nil && string(back) != ping {
			err = &failureError{FailureAnswer, fmt.Errorf("%q came back", back)}
		}
		if err != nil {
			if ctx.Err() == nil {
				h.mu.Lock()
				h.lost = append(h.lost, fmt.Sprintf("%s after %s: %s", name, time.Since(opened).Round(time.Millisecond), err))
				h.mu.Unlock()
			}
			return
		}
		timer.Reset(pingEvery)
	}
}

// Lost returns what became of the connections that did not stay.
func (h *Held) Lost() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.lost...)
}

// Close ends the connections; what ends now is not lost.
func (h *Held) Close() {
	h.cancel()
	h.all.Wait()
}
