package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// probeMark is on the packets that we forge: conntrack does not look at them.
const probeMark = 0x1bfa17ed

// prober sends packets into connections that were cut. A segment that does not fit is answered by where the other
// end stands, and that answer comes by here, where the table makes a reset of it: so both ends learn at once what
// they else would learn when they next have something to say.
type prober struct{ fd4, fd6 int }

func newProber() (*prober, error) {
	p := &prober{-1, -1}
	var err error
	if p.fd4, err = rawSocket(unix.AF_INET); err == nil {
		p.fd6, err = rawSocket(unix.AF_INET6)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("opening a raw socket (this needs CAP_NET_RAW): %w", err)
	}
	return p, nil
}

func rawSocket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, probeMark)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_HDRINCL, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (p *prober) close() {
	for _, fd := range []int{p.fd4, p.fd6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// probe sends a segment that can't fit. Errors don't matter: it only hastens what comes anyway.
func (p *prober) probe(from, to netip.AddrPort) error {
	if from.Addr().Is4() != to.Addr().Is4() || !from.IsValid() || !to.IsValid() {
		return errors.New("not of one family")
	}
	b := segment(from, to)
	if to.Addr().Is4() {
		return unix.Sendto(p.fd4, b, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	}
	return unix.Sendto(p.fd6, b, 0, &unix.SockaddrInet6{Addr: to.Addr().As16()})
}

// segment is a TCP segment without data, acknowledging nothing in particular.
func segment(from, to netip.AddrPort) []byte {
	tcp := make([]byte, 20)
	binary.BigEndian.PutUint16(tcp, from.Port())
	binary.BigEndian.PutUint16(tcp[2:], to.Port())
	tcp[12], tcp[13] = 5<<4, flagAck
	src, dst := from.Addr().AsSlice(), to.Addr().AsSlice()
	sum := add(add(add(uint32(unix.IPPROTO_TCP)+uint32(len(tcp)), src), dst), tcp)
	binary.BigEndian.PutUint16(tcp[16:], fold(sum))
	if len(src) == 4 {
		ip := make([]byte, 20, 40)
		ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_TCP // length and checksum are the kernel's to fill in
		binary.BigEndian.PutUint16(ip[2:], 40)
		copy(ip[12:], src)
		copy(ip[16:], dst)
		return append(ip, tcp...)
	}
	ip := make([]byte, 40, 60)
	ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_TCP, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)))
	copy(ip[8:], src)
	copy(ip[24:], dst)
	return append(ip, tcp...)
}

// add adds to an internet checksum.
func add(sum uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
