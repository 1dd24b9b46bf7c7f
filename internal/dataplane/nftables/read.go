package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"fairlead.dev/fairlead/internal/dataplane/nl"
	"fairlead.dev/fairlead/internal/lb"
	"golang.org/x/sys/unix"
)

// running is what the kernel has in our table.
type running struct {
	// exists: there is a table of our name; current: of this layout.
	exists, current bool
	sockets         map[lb.Socket]*runningSocket
	spreads         map[mark]*runningSpread
	vips, members   map[netip.Addr]bool
	targets         map[uint16]bool
}

type runningSocket struct {
	mark mark
	port uint16
	// open, admitted: the map of that name has its mark.
	open, admitted   bool
	hasPort, limited bool
	sources          []sourceKeys
	comment          string
	accepts          uint64
}

// sourceKeys are the first and last key of a range of sources.
type sourceKeys struct{ first, last string }

type runningSpread struct {
	comment string
	listed  bool
	slots   []netip.Addr
}

func (r *running) socket(s lb.Socket) *runningSocket {
	out := r.sockets[s]
	if out == nil {
		out = &runningSocket{}
		r.sockets[s] = out
	}
	return out
}

func (r *running) spread(m mark) *runningSpread {
	out := r.spreads[m]
	if out == nil {
		out = &runningSpread{}
		r.spreads[m] = out
	}
	return out
}

// errForeign is that somebody else's table has our name.
var errForeign = errors.New("belongs to somebody else; choose another name or delete it")

// read reads what runs. It is whole: if the table changes meanwhile it reads again.
func (l *layout) read(c *nl.Conn) (*running, error) {
	var err error
	for range 5 {
		var r *running
		if r, err = l.readOnce(c); !errors.Is(err, nl.ErrInterrupted) {
			return r, err
		}
	}
	return nil, err
}

func (l *layout) readOnce(c *nl.Conn) (*running, error) {
	r := &running{sockets: map[lb.Socket]*runningSocket{}, spreads: map[mark]*runningSpread{}, vips: map[netip.Addr]bool{}, members: map[netip.Addr]bool{}, targets: map[uint16]bool{}}
	var foreign bool
	err := c.Dump(nl.Tables<<8|unix.NFT_MSG_GETTABLE, nl.Head(unix.NFPROTO_INET, 0), nil, nl.HeadLen, func(_ []byte, a nl.Attrs) error {
		var name, note string
		for t, v := range a.All() {
			switch t {
			case unix.NFTA_TABLE_NAME:
				name = text(v)
			case nftaTableUserdata:
				note = commentOf(v)
			}
		}
		if name == l.table {
			r.exists = true
			foreign = !strings.HasPrefix(note, commentPrefix)
			r.current = note == commentPrefix+l.version
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	if foreign {
		return nil, fmt.Errorf("table inet %s %w", l.table, errForeign)
	}
	if !r.exists {
		return r, nil
	}
	// Of another layout, the spreads are what connections' marks still speak of, and the addresses may have some.
	sets := l.sets
	if !r.current {
		sets = []*set{l.groups, l.v4.vips, l.v6.vips}
	}
	for _, s := range sets {
		if err := l.elements(c, s, r.take(l, s)); err != nil {
			if !r.current && errors.Is(err, unix.ENOENT) {
				continue
			}
			return nil, fmt.Errorf("reading set %s: %w", s.name, err)
		}
	}
	return r, nil
}

func text(b []byte) string { return strings.TrimRight(string(b), "\x00") }

// listed is an element as the kernel lists it; valid while the dump goes on.
type listed struct {
	key, last, value []byte
	comment          string
	packets          uint64
}

func (l *layout) elements(c *nl.Conn, s *set, each func(listed)) error {
	var a nl.Attrs
	a.String(unix.NFTA_SET_ELEM_LIST_TABLE, l.table)
	a.String(unix.NFTA_SET_ELEM_LIST_SET, s.name)
	return c.Dump(nl.Tables<<8|unix.NFT_MSG_GETSETELEM, nl.Head(unix.NFPROTO_INET, 0), a, nl.HeadLen, func(_ []byte, a nl.Attrs) error {
		for t, list := range a.All() {
			if t != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
				continue
			}
			for _, e := range nl.Attrs(list).All() {
				each(decode(e))
			}
		}
		return nil
	})
}

func decode(e []byte) (out listed) {
	for t, v := range nl.Attrs(e).All() {
		switch t {
		case unix.NFTA_SET_ELEM_KEY:
			out.key = value(v)
		case nftaElemKeyEnd:
			out.last = value(v)
		case unix.NFTA_SET_ELEM_DATA:
			out.value = value(v)
		case nftaElemUserdata:
			out.comment = commentOf(v)
		case unix.NFTA_SET_ELEM_EXPR:
			out.packets = packets(v)
		case nftaElemExpressions:
			for _, x := range nl.Attrs(v).All() {
				out.packets = packets(x)
			}
		}
	}
	return out
}

func value(v []byte) []byte {
	for t, b := range nl.Attrs(v).All() {
		if t == unix.NFTA_DATA_VALUE {
			return b
		}
	}
	return nil
}

// packets reads a counter expression.
func packets(v []byte) (n uint64) {
	for t, b := range nl.Attrs(v).All() {
		if t == unix.NFTA_EXPR_DATA {
			n = counted(b)
		}
	}
	return n
}

func counted(v []byte) (n uint64) {
	for t, b := range nl.Attrs(v).All() {
		if t == nftaCounterPackets && len(b) == 8 {
			n = binary.BigEndian.Uint64(b)
		}
	}
	return n
}

// take returns what notes the elements of s in r.
func (r *running) take(l *layout, s *set) func(listed) {
	if s == l.groups {
		return func(e listed) {
			g := r.spread(markOf(e.key))
			g.listed, g.comment = true, e.comment
		}
	}
	if s == l.targets {
		return func(e listed) {
			if len(e.key) == 8 {
				r.targets[binary.BigEndian.Uint16(e.key[4:])] = true
			}
		}
	}
	for _, f := range l.families() {
		if note := r.takeFamily(f, s); note != nil {
			return note
		}
	}
	return func(listed) {}
}

func (r *running) takeFamily(f *family, set *set) func(listed) {
	of := func(e listed, note func(*runningSocket)) {
		if at, ok := socketOf(e.key); ok {
			note(r.socket(at))
		}
	}
	address := func(to map[netip.Addr]bool) func(listed) {
		return func(e listed) {
			if a, ok := netip.AddrFromSlice(e.key); ok {
				to[a] = true
			}
		}
	}
	switch set {
	case f.fe, f.admitted:
		return func(e listed) {
			of(e, func(s *runningSocket) {
				s.mark, s.comment, s.accepts = markOf(e.value), e.comment, e.packets
				s.open, s.admitted = s.open || set == f.fe, s.admitted || set == f.admitted
			})
		}
	case f.port:
		return func(e listed) {
			of(e, func(s *runningSocket) {
				if len(e.value) >= 2 {
					s.port, s.hasPort = binary.BigEndian.Uint16(e.value), true
				}
			})
		}
	case f.limited:
		return func(e listed) { of(e, func(s *runningSocket) { s.limited = true }) }
	case f.sources:
		return func(e listed) {
			first, last := string(e.key), string(e.last)
			if len(e.last) == 0 {
				last = first
			}
			e.key = e.key[:max(len(e.key)-f.addrLen, 0)]
			of(e, func(s *runningSocket) { s.sources = append(s.sources, sourceKeys{first, last}) })
		}
	case f.node:
		return func(e listed) {
			a, ok := netip.AddrFromSlice(e.value)
			if !ok || len(e.key) != 8 {
				return
			}
			g, i := r.spread(markOf(e.key)), int(binary.NativeEndian.Uint32(e.key[4:]))
			for i >= len(g.slots) {
				g.slots = append(g.slots, make([]netip.Addr, max(slots, i+1)-len(g.slots))...)
			}
			g.slots[i] = a
		}
	case f.vips:
		return address(r.vips)
	case f.members:
		return address(r.members)
	}
	return nil
}

func markOf(b []byte) mark {
	if len(b) < 4 {
		return 0
	}
	return mark(binary.NativeEndian.Uint32(b))
}
