package main

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

type holdParams struct {
	From  netip.AddrPort // the first of Count ports
	To    netip.AddrPort
	Count int
}

type dropParams struct {
	Member netip.Addr
	Count  int
}

// holderOps are those of a client that holds many connections open. One process may not have enough files.
func holderOps() ops {
	held := map[netip.Addr][]int{}
	return ops{
		// hold opens connections, and says how many each member has.
		"hold": op(func(p holdParams) (map[netip.Addr]int, error) {
			for i := range p.Count {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return nil, err
				}
				member, err := meet(fd, netip.AddrPortFrom(p.From.Addr(), p.From.Port()+uint16(i)), p.To, 2*slow)
				if err != nil {
					return nil, fmt.Errorf("connection %d of %d: %w", i, p.Count, err)
				}
				held[member] = append(held[member], fd)
			}
			counts := map[netip.Addr]int{}
			for m, fds := range held {
				counts[m] = len(fds)
			}
			return counts, nil
		}),
		// drop ends some of a member's connections.
		"drop": op(func(p dropParams) (int, error) {
			fds := held[p.Member]
			n := min(p.Count, len(fds))
			for _, fd := range fds[:n] {
				unix.Close(fd) // with a reset, see meet
			}
			held[p.Member] = fds[n:]
			return n, nil
		}),
	}
}
