package traffic

import (
	"context"
	"fmt"
	"net"
)

// Flow is a UDP flow: datagrams from one port of ours.
type Flow struct{ conn net.Conn }

// Open opens a flow by this way. Nothing is sent yet.
func (w *Way) Open(ctx context.Context) (*Flow, error) {
	conn, err := w.dial()(ctx, "udp", w.Address.String())
	if err != nil {
		return nil, fmt.Errorf("opening a flow to %s: %w", w.Address, err)
	}
	return &Flow{conn}, nil
}

// Ask sends one datagram, and waits for the one that answers it, within Timeout. It never tries again.
func (f *Flow) Ask(ctx context.Context, text string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	if err := f.conn.SetDeadline(deadline); err != nil {
		return Answer{}, err
	}
	if _, err := f.conn.Write([]byte(text)); err != nil {
		return Answer{}, err
	}
	b := make([]byte, maxAnswer)
	for {
		n, err := f.conn.Read(b)
		if err != nil {
			return Answer{}, err
		}
		a, err := parse(b[:n])
		if err == nil && a.Path != text {
			continue // the late answer to an earlier one
		}
		return a, err
	}
}

// Close ends the flow on this side.
func (f *Flow) Close() { f.conn.Close() }
