package nftables

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

const (
	// slots of each spread. All proxies of a pool need the same, and the same hashSeed.
	slots    = 256
	hashSeed = 0x5eed
)

// family is what differs between the two families of addresses in the table.
type family struct {
	suffix   string
	nfproto  byte
	addrType uint32
	addrLen  int
	saddr    uint32 // offset of the source address in the network header
	daddr    uint32
	userdata []byte // of the map from slots to members, so that `nft list` can print it
	fe, port *set
	node     *set
	vips     *set
	members  *set
	// admitted are the frontends whose sources are limited, for sources that may connect.
	admitted   *set
	limited    *set
	sources    *set
	registers  registers
	vip, spray string // chains
}

// registers are those that nft itself uses: it prints only what it could have written.
type registers struct {
	proto, port, source   uint32 // of a key that begins in register 1
	hashSource, hashPort  uint32
	valueProto, valuePort uint32
}

// Types of nft, as `nft list` reads them.
const (
	typeMark    = 19
	typeIPv4    = 7
	typeIPv6    = 8
	typeService = 13
	typeProto   = 12
	typeInteger = 4
	typeBits    = 6
)

func concat(types ...uint32) (out uint32) {
	for _, t := range types {
		out = out<<typeBits | t
	}
	return out
}

// set is a named set or map of the table.
type set struct {
	name            string
	keyType, keyLen uint32
	dataType        uint32
	dataLen         uint32
	interval        []uint32 // lengths of the fields of a concatenation of ranges
	counter         bool
	userdata        []byte
	id              uint32
}

func (s *set) isMap() bool { return s.dataLen > 0 }

// layout is the whole table but for its elements.
type layout struct {
	table  string
	v4, v6 *family
	// targets are the protocols and ports of members that see the client's address. (A set of ports alone would be a
	// bitmap to the kernel, which finds elements by walking all.)
	targets *set
	groups  *set
	sets    []*set
	version string
}

func newLayout(table string) *layout {
	l := &layout{table: table}
	l.v4 = l.newFamily(family{
		suffix: "4", nfproto: unix.NFPROTO_IPV4, addrType: typeIPv4, addrLen: 4, saddr: 12, daddr: 16,
		userdata: userdataSlots4, vip: "vip4", spray: "spread4",
		registers: registers{proto: 9, port: 10, source: 11, hashSource: 14, hashPort: 15, valueProto: 13, valuePort: 14},
	})
	l.v6 = l.newFamily(family{
		suffix: "6", nfproto: unix.NFPROTO_IPV6, addrType: typeIPv6, addrLen: 16, saddr: 8, daddr: 24,
		userdata: userdataSlots6, vip: "vip6", spray: "spread6",
		registers: registers{proto: 2, port: 13, source: 14, hashSource: 14, hashPort: 18, valueProto: 3, valuePort: 17},
	})
	l.targets = l.add(&set{name: "targets", keyType: concat(typeProto, typeService), keyLen: 8})
	l.groups = l.add(&set{name: "groups", keyType: typeMark, keyLen: 4, userdata: userdataHost})
	b := &nl.Batch{}
	l.addTo(b, "")
	h := fnv.New64a()
	h.Write(b.Bytes())
	l.version = fmt.Sprintf("%016x", h.Sum64())
	return l
}

func (l *layout) add(s *set) *set {
	s.id = uint32(len(l.sets) + 1)
	l.sets = append(l.sets, s)
	return s
}

func (l *layout) newFamily(f family) *family {
	frontend := concat(f.addrType, typeProto, typeService)
	length := uint32(f.addrLen) + 8
	f.fe = l.add(&set{name: "frontends" + f.suffix, keyType: frontend, keyLen: length, dataType: typeMark, dataLen: 4, counter: true, userdata: userdataHostData})
	f.port = l.add(&set{name: "ports" + f.suffix, keyType: frontend, keyLen: length, dataType: typeService, dataLen: 2, userdata: userdataNetData})
	f.node = l.add(&set{name: "slots" + f.suffix, keyType: concat(typeMark, typeInteger), keyLen: 8, dataType: f.addrType, dataLen: uint32(f.addrLen), userdata: f.userdata})
	f.vips = l.add(&set{name: "vips" + f.suffix, keyType: f.addrType, keyLen: uint32(f.addrLen), userdata: userdataNet})
	f.members = l.add(&set{name: "members" + f.suffix, keyType: f.addrType, keyLen: uint32(f.addrLen), userdata: userdataNet})
	f.admitted = l.add(&set{name: "admitted" + f.suffix, keyType: frontend, keyLen: length, dataType: typeMark, dataLen: 4, counter: true, userdata: userdataHostData})
	f.limited = l.add(&set{name: "limited" + f.suffix, keyType: frontend, keyLen: length})
	f.sources = l.add(&set{name: "sources" + f.suffix, keyType: concat(f.addrType, typeProto, typeService, f.addrType), keyLen: length + uint32(f.addrLen),
		interval: []uint32{uint32(f.addrLen), 1, 2, uint32(f.addrLen)}})
	return &f
}

// frontends are the maps that have frontends' marks, and count their connections.
func (l *layout) frontends() []*set { return []*set{l.v4.fe, l.v4.admitted, l.v6.fe, l.v6.admitted} }

// of is the family of an address.
func (l *layout) of(a netip.Addr) *family {
	if a.Is4() {
		return l.v4
	}
	return l.v6
}

func protocolNumber(p lb.Protocol) byte {
	switch p {
	case lb.TCP:
		return unix.IPPROTO_TCP
	case lb.UDP:
		return unix.IPPROTO_UDP
	case lb.SCTP:
		return unix.IPPROTO_SCTP
	}
	return 0
}

func protocolOf(n byte) lb.Protocol {
	switch n {
	case unix.IPPROTO_TCP:
		return lb.TCP
	case unix.IPPROTO_UDP:
		return lb.UDP
	case unix.IPPROTO_SCTP:
		return lb.SCTP
	}
	return ""
}

// Each component of a key fills 4 bytes or a multiple; marks and slots are in the host's order, the rest in the network's.

func frontendKey(s lb.Socket) []byte {
	k := append(make([]byte, 0, 40), s.Address.AsSlice()...)
	k = append(k, protocolNumber(s.Protocol), 0, 0, 0)
	return append(binary.BigEndian.AppendUint16(k, s.Port), 0, 0)
}

func socketOf(key []byte) (lb.Socket, bool) {
	n := len(key) - 8
	a, ok := netip.AddrFromSlice(key[:max(n, 0)])
	if !ok {
		return lb.Socket{}, false
	}
	return lb.Socket{Address: a, Protocol: protocolOf(key[n]), Port: binary.BigEndian.Uint16(key[n+4:])}, true
}

func markKey(m mark) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(m)) }

func slotKey(m mark, slot int) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(make([]byte, 0, 8), uint32(m)), uint32(slot))
}

func targetKey(p uint16) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{unix.IPPROTO_TCP, 0, 0, 0}, p), 0, 0)
}

func portValue(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }

// sourceRange is the first and last key of a source that may reach a socket.
func sourceRange(s lb.Socket, p netip.Prefix) (first, last []byte) {
	first = append(frontendKey(s), p.Addr().AsSlice()...)
	last = append(frontendKey(s), p.Addr().AsSlice()...)
	at := len(last) - len(p.Addr().AsSlice())
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		last[at+i/8] |= 0x80 >> (i % 8)
	}
	return first, last
}

func u32le(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

// What nft keeps beside sets to print them as they were written: byte orders, and expressions for `typeof`.
var (
	userdataNet      = append([]byte{0, 4}, u32le(2)...)
	userdataHost     = append([]byte{0, 4}, u32le(1)...)
	userdataHostData = append([]byte{0, 4, 0, 0, 0, 0, 1, 4}, u32le(1)...)
	userdataNetData  = append([]byte{0, 4, 0, 0, 0, 0, 1, 4}, u32le(2)...)
	// typeof ct mark . numgen random mod 256 : ip daddr, and ip6 daddr. (1.0.6 cannot read back a jhash there.)
	userdataSlots4 = userdataSlots(0x0c, 0x0c)
	userdataSlots6 = userdataSlots(0x0d, 0x09)
)

func userdataSlots(header, field uint32) []byte {
	item := func(kind byte, parts ...[]byte) []byte {
		var v []byte
		for _, p := range parts {
			v = append(v, p...)
		}
		return append([]byte{kind, byte(len(v))}, v...)
	}
	const concatenation, ctKey, numgen, payload, ctMark, random = 0x0d, 0x0c, 0x17, 0x07, 3, 1
	key := item(3,
		item(0, u32le(concatenation)),
		item(1,
			item(0, item(0, u32le(ctKey)), item(1, item(0, u32le(ctMark)), item(1, u32le(1<<32-1)))),
			item(1, item(0, u32le(numgen)), item(1, item(0, u32le(random)), item(1, u32le(slots)), item(2, u32le(0))))))
	data := item(4, item(0, u32le(payload)), item(1, item(0, u32le(header)), item(1, u32le(field))))
	out := append(slices.Clone(userdataNetData), key...)
	return append(append(out, data...), item(6, u32le(0))...)
}
