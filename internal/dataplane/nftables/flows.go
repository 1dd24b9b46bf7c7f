package nftables

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// Conntrack's attributes and states.
const (
	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaProtoInfo  = 4
	ctaMark       = 8
	ctaZone       = 18
	ctaMarkMask   = 21

	ctaTupleIP    = 1
	ctaTupleProto = 2

	ctNew    = 0
	ctGet    = 1
	ctDelete = 2

	tcpSynSent     = 1
	tcpEstablished = 3
	tcpTimeWait    = 7
)

// flow is a connection that conntrack knows: from a client to one of our addresses, answered by a member.
type flow struct {
	family   byte
	protocol byte
	mark     mark
	state    byte
	client   netip.AddrPort
	vip      netip.AddrPort
	member   netip.AddrPort
	// back is where the member sends to: the client, or this host in its place.
	back netip.AddrPort
	// original is its first tuple as it came.
	original, zone []byte
}

func (f *flow) socket() lb.Socket {
	return lb.Socket{Address: f.vip.Addr(), Protocol: protocolOf(f.protocol), Port: f.vip.Port()}
}

// over says that it has ended, but for the time that conntrack remembers it.
func (f *flow) over() bool { return f.protocol == unix.IPPROTO_TCP && f.state >= tcpTimeWait }

// dumpFlows calls each with every connection that has this mark where mask has bits. What it gets is valid until it returns.
func dumpFlows(c *nl.Conn, m, mask mark, each func(*flow)) error {
	var a nl.Attrs
	a.U32(ctaMark, uint32(m))
	a.U32(ctaMarkMask, uint32(mask))
	var f flow
	return c.Dump(nl.Conntrack<<8|ctGet, nl.Head(unix.AF_UNSPEC, 0), a, nl.HeadLen, func(head []byte, a nl.Attrs) error {
		f = flow{family: head[0]}
		f.decode(a)
		each(&f)
		return nil
	})
}

func (f *flow) decode(a nl.Attrs) {
	for t, v := range a.All() {
		switch t {
		case ctaTupleOrig:
			f.original = v
			f.client, f.vip, f.protocol = tuple(v)
		case ctaTupleReply:
			f.member, f.back, _ = tuple(v)
		case ctaProtoInfo:
			for t, tcp := range nl.Attrs(v).All() {
				for u, state := range nl.Attrs(tcp).All() {
					if t == 1 && u == 1 && len(state) > 0 {
						f.state = state[0]
					}
				}
			}
		case ctaMark:
			if len(v) == 4 {
				f.mark = mark(binary.BigEndian.Uint32(v))
			}
		case ctaZone:
			f.zone = v
		}
	}
}

func tuple(v []byte) (source, destination netip.AddrPort, protocol byte) {
	var src, dst netip.Addr
	var sport, dport uint16
	for t, v := range nl.Attrs(v).All() {
		for u, b := range nl.Attrs(v).All() {
			switch {
			case t == ctaTupleIP && (u == 1 || u == 3):
				src, _ = netip.AddrFromSlice(b)
			case t == ctaTupleIP && (u == 2 || u == 4):
				dst, _ = netip.AddrFromSlice(b)
			case t == ctaTupleProto && u == 1 && len(b) == 1:
				protocol = b[0]
			case t == ctaTupleProto && u == 2 && len(b) == 2:
				sport = binary.BigEndian.Uint16(b)
			case t == ctaTupleProto && u == 3 && len(b) == 2:
				dport = binary.BigEndian.Uint16(b)
			}
		}
	}
	return netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport), protocol
}

func (f *flow) key() (a nl.Attrs) {
	a.Bytes(ctaTupleOrig|unix.NLA_F_NESTED, f.original)
	if f.zone != nil {
		a.Bytes(ctaZone, f.zone)
	}
	return a
}

// delete makes conntrack forget the flow. It is no error if it has.
func (f *flow) delete(c *nl.Conn) error {
	err := c.Do(nl.Conntrack<<8|ctDelete, 0, nl.Head(f.family, 0), f.key())
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// setCut marks the flow as ended.
func (f *flow) setCut(c *nl.Conn) error {
	a := f.key()
	a.U32(ctaMark, uint32(markCut))
	a.U32(ctaMarkMask, uint32(markCut))
	err := c.Do(nl.Conntrack<<8|ctNew, 0, nl.Head(f.family, 0), a)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// keep is a copy that outlives the dump.
func (f *flow) keep() flow {
	out := *f
	out.original = append([]byte(nil), f.original...)
	if f.zone != nil {
		out.zone = append([]byte(nil), f.zone...)
	}
	return out
}
