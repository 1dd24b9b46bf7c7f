package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// monitor counts what the kernel says of changes to a host's nftables rules: it repeats each object
// of a transaction, in a message like the one it was sent.
type monitor struct{ conn *netlink.Conn }

func (h *host) monitor() (*monitor, error) {
	m := &monitor{}
	err := h.Do(func() (err error) {
		m.conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening to nftables on %s: %w", h.Name(), err)
	}
	if err := errors.Join(m.conn.JoinGroup(unix.NFNLGRP_NFTABLES), m.conn.SetReadBuffer(8<<20)); err != nil {
		m.conn.Close()
		return nil, fmt.Errorf("listening to nftables on %s: %w", h.Name(), err)
	}
	return m, nil
}

// count returns what has been said until nothing comes for a while.
func (m *monitor) count(ctx context.Context) (messages, bytes int, err error) {
	for ctx.Err() == nil {
		if err := m.conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			return 0, 0, err
		}
		got, err := m.conn.Receive()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return messages, bytes, nil
		} else if err != nil {
			return 0, 0, fmt.Errorf("listening to nftables: %w", err)
		}
		messages += len(got)
		for _, g := range got {
			bytes += int(g.Header.Length)
		}
	}
	return 0, 0, context.Cause(ctx)
}

func (m *monitor) close() { m.conn.Close() }
