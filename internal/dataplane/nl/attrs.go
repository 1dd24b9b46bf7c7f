package nl

import (
	"encoding/binary"
	"iter"

	"golang.org/x/sys/unix"
)

// typeMask takes the flags off a type.
const typeMask = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)

// MaxList is how long a nested attribute may become: its length has 16 bits.
const MaxList = 60_000

// Attrs are encoded attributes.
type Attrs []byte

func align(n int) int { return (n + 3) &^ 3 }

func (a *Attrs) header(t uint16, n int) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(n+4))
	*a = binary.NativeEndian.AppendUint16(*a, t)
}

// Bytes adds an attribute.
func (a *Attrs) Bytes(t uint16, b []byte) {
	a.header(t, len(b))
	*a = append(*a, b...)
	*a = append(*a, make([]byte, align(len(b))-len(b))...)
}

// String adds a string that ends with a zero.
func (a *Attrs) String(t uint16, s string) {
	a.header(t, len(s)+1)
	*a = append(*a, s...)
	*a = append(*a, make([]byte, align(len(s)+1)-len(s))...)
}

// U8 adds one byte.
func (a *Attrs) U8(t uint16, v uint8) { a.Bytes(t, []byte{v}) }

// U32 adds a number in network order, as nfnetlink has them.
func (a *Attrs) U32(t uint16, v uint32) {
	a.header(t, 4)
	*a = binary.BigEndian.AppendUint32(*a, v)
}

// Begin starts a nested attribute, which End of what it returned ends.
func (a *Attrs) Begin(t uint16) int {
	at := len(*a)
	a.header(t|unix.NLA_F_NESTED, 0)
	return at
}

// End ends the nested attribute that began at.
func (a *Attrs) End(at int) {
	binary.NativeEndian.PutUint16((*a)[at:], uint16(len(*a)-at))
}

// All yields the attributes, by type without flags. It ends at what is malformed.
func (a Attrs) All() iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(a) >= 4 {
			n := int(binary.NativeEndian.Uint16(a))
			if n < 4 || n > len(a) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(a[2:])&typeMask, a[4:n]) {
				return
			}
			if align(n) >= len(a) {
				return
			}
			a = a[align(n):]
		}
	}
}
