package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// flowsBatch are sent before the other one's turn. A turn is so short that what else the machine does hits few.
	flowsBatch = 200
	// flowsTurns bounds how many batches conntrack holds at once.
	flowsTurns = 25
)

// measureFlows measures what one packet costs on its way through a host: the first of a flow and one of a flow that runs. Nobody
// answers, and all happens on the sender's thread, whose own clock is read: other load hardly disturbs it.
func (b *bench) measureFlows(ctx context.Context) error {
	net, err := newNetwork()
	if err != nil {
		return err
	}
	defer net.Close()
	for _, h := range net.backends {
		if err := (&balancer{host: h}).nft(ctx, sinkRules); err != nil {
			return err
		}
	}
	sender, err := net.client.start("sender")
	if err != nil {
		return err
	}
	defer sender.stop()
	addresses := members(2)
	carried := map[string]*balancer{}
	for _, name := range []string{direct, ours, hands} {
		lb, err := net.balancer(name)
		if err != nil {
			return err
		}
		t := &traffic{bench: b, targets: map[string][]netip.AddrPort{}, planes: map[string]*helper{}}
		stop, err := t.carry(ctx, net, lb, addresses)
		if err != nil {
			return fmt.Errorf("setting up %s: %w", name, err)
		}
		defer stop()
		carried[name] = lb
	}
	of := func(name string, running bool) sendParams {
		lb := carried[name]
		p := sendParams{From: lb.client, To: netip.AddrPortFrom(lb.service, servicePort), Running: running, Batch: flowsBatch}
		if name == direct {
			p.To = netip.AddrPortFrom(addresses[0], httpPort)
		}
		return p
	}
	for _, kind := range []struct {
		name    string
		running bool
	}{{"a new flow", false}, {"a packet of a running flow", true}} {
		costs := map[string][]float64{}
		for range b.flows {
			p := takeTurns{Turns: flowsTurns}
			names := []string{direct, ours, hands}
			for _, name := range names {
				p.Of = append(p.Of, of(name, kind.running))
			}
			var out [][]float64
			if err := sender.call(ctx, "turns", p, &out); err != nil {
				return err
			}
			for i, name := range names {
				costs[name] = append(costs[name], out[i]...)
			}
			if err := errors.Join(carried[ours].forget(), carried[hands].forget()); err != nil {
				return err
			}
		}
		more := make([]float64, len(costs[ours]))
		for i := range more {
			more[i] = costs[ours][i] - costs[hands][i]
		}
		x := intervalOf(more)
		b.note(kind.name+" by no load balancer", "ns", intervalOf(costs[direct]).Median, "")
		b.note(kind.name+" by rules by hand", "ns", intervalOf(costs[hands]).Median, "")
		b.note(kind.name+": nftables more than by hand", "ns", x.Median,
			fmt.Sprintf("median of %d pairs of %d packets, interval %.0f to %.0f", len(more), flowsBatch, x.Low, x.High))
	}
	return nil
}

// sinkRules have a backend forget what reaches it.
const sinkRules = `table ip sink {
	chain prerouting {
		type filter hook prerouting priority raw; policy drop
	}
}
`

// sendParams are packets to be sent: the first ones of flows, or ones of a flow that runs.
type sendParams struct {
	From    netip.Addr
	To      netip.AddrPort
	Running bool
	Batch   int
}

type takeTurns struct {
	Of    []sendParams
	Turns int
}

// senderOps are those of a client that opens flows and waits for nothing.
func senderOps() ops {
	debug.SetGCPercent(-1) // between turns only
	s := &sender{}
	return ops{"turns": op(s.turns)}
}

type sender struct {
	fd int
	// made counts the flows, so that each is a new one.
	made uint32
}

// turns sends batches of each kind in turn, forth and back, and returns what a packet cost in each, in nanoseconds.
func (s *sender) turns(p takeTurns) ([][]float64, error) {
	runtime.GC()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, os.NewSyscallError("opening a raw socket", err)
	}
	defer unix.Close(fd)
	s.fd = fd
	costs := make([][]float64, len(p.Of))
	for turn := range p.Turns {
		order := make([]int, len(p.Of))
		for i := range order {
			order[i] = i
		}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			cost, err := s.batch(p.Of[i])
			if err != nil {
				return nil, err
			}
			costs[i] = append(costs[i], float64(cost)/float64(p.Of[i].Batch))
		}
	}
	return costs, nil
}

// batch sends one batch and returns what that took of this thread's time.
func (s *sender) batch(p sendParams) (time.Duration, error) {
	packets := make([][]byte, p.Batch)
	for i := range packets {
		if i == 0 || !p.Running {
			s.made++
		}
		packets[i] = syn(p.From, p.To, s.made)
	}
	to := &unix.SockaddrInet4{Addr: p.To.Addr().As4()}
	if p.Running { // The flow's first packet.
		if err := unix.Sendto(s.fd, packets[0], 0, to); err != nil {
			return 0, os.NewSyscallError("sending", err)
		}
	}
	began := spent(unix.CLOCK_THREAD_CPUTIME_ID)
	for _, packet := range packets {
		if err := unix.Sendto(s.fd, packet, 0, to); err != nil {
			return 0, os.NewSyscallError("sending", err)
		}
	}
	return spent(unix.CLOCK_THREAD_CPUTIME_ID) - began, nil
}

// syn is the first packet of flow n: of a client beside from, from a port of its own.
func syn(from netip.Addr, to netip.AddrPort, n uint32) []byte {
	const ports, clients = 50000, 200
	source, dest := from.As4(), to.Addr().As4()
	source[3] += byte(n / ports % clients)
	p := make([]byte, 40)
	ip, tcp := p[:20], p[20:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(p)))
	copy(ip[12:], source[:])
	copy(ip[16:], dest[:])
	binary.BigEndian.PutUint16(tcp, uint16(1024+n%ports))
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	binary.BigEndian.PutUint32(tcp[4:], n)
	tcp[12], tcp[13] = 5<<4, 2
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	pseudo := slices.Concat(source[:], dest[:], []byte{0, unix.IPPROTO_TCP, 0, byte(len(tcp))}, tcp)
	var sum uint32
	for i := 0; i < len(pseudo); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(pseudo[i:]))
	}
	for sum>>16 > 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(tcp[16:], ^uint16(sum))
	return p
}
