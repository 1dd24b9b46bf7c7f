package ipam

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Range is the addresses from First to Last, both included, of one family.
type Range struct{ First, Last netip.Addr }

// ParseRange reads a CIDR, or two addresses as first-last.
func ParseRange(s string) (Range, error) {
	if first, last, ok := strings.Cut(s, "-"); ok {
		a, err := netip.ParseAddr(strings.TrimSpace(first))
		if err != nil {
			return Range{}, fmt.Errorf("range %q: %w", s, err)
		}
		b, err := netip.ParseAddr(strings.TrimSpace(last))
		if err != nil {
			return Range{}, fmt.Errorf("range %q: %w", s, err)
		}
		a, b = a.Unmap(), b.Unmap()
		if a.Zone() != "" || b.Zone() != "" || a.Is4() != b.Is4() {
			return Range{}, fmt.Errorf("range %q: both addresses must be of one family, without a zone", s)
		}
		if b.Less(a) {
			return Range{}, fmt.Errorf("range %q: the first address must not be above the last", s)
		}
		return Range{a, b}, nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return Range{}, fmt.Errorf("range %q: %w", s, err)
	}
	p = p.Masked()
	return Range{p.Addr(), lastOf(p)}, nil
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		switch bits := p.Bits() - 8*i; {
		case bits <= 0:
			b[i] = 0xff
		case bits < 8:
			b[i] |= 0xff >> bits
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Contains says whether the address lies in the range.
func (r Range) Contains(a netip.Addr) bool {
	return a.Is4() == r.First.Is4() && !a.Less(r.First) && !r.Last.Less(a)
}

func (r Range) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// Size is the number of addresses, at most math.MaxInt64.
func (r Range) Size() int64 {
	n := new(big.Int).SetBytes(r.Last.AsSlice())
	n.Sub(n, new(big.Int).SetBytes(r.First.AsSlice()))
	n.Add(n, big.NewInt(1))
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// subtract returns what of r lies in none of the cuts, ascending, and the parts that do.
func (r Range) subtract(cuts []Range) (rest, cut []Range) {
	rest = []Range{r}
	for _, c := range cuts {
		var next []Range
		for _, r := range rest {
			if c.First.Is4() != r.First.Is4() || c.Last.Less(r.First) || r.Last.Less(c.First) {
				next = append(next, r)
				continue
			}
			cut = append(cut, Range{maxAddr(r.First, c.First), minAddr(r.Last, c.Last)})
			if r.First.Less(c.First) {
				next = append(next, Range{r.First, c.First.Prev()})
			}
			if c.Last.Less(r.Last) {
				next = append(next, Range{c.Last.Next(), r.Last})
			}
		}
		rest = next
	}
	slices.SortFunc(rest, compareRanges)
	return rest, cut
}

func compareRanges(a, b Range) int {
	return cmp.Or(a.First.Compare(b.First), a.Last.Compare(b.Last))
}

func minAddr(a, b netip.Addr) netip.Addr {
	if b.Less(a) {
		return b
	}
	return a
}

func maxAddr(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

// PortRange is the ports from First to Last, both included; the zero range has none.
type PortRange struct{ First, Last int32 }

// ParsePortRange reads first-last, within 1 to 65535.
func ParsePortRange(s string) (PortRange, error) {
	first, last, ok := strings.Cut(s, "-")
	a, err := strconv.ParseUint(first, 10, 16)
	b, other := strconv.ParseUint(last, 10, 16)
	if !ok || err != nil || other != nil || a == 0 || b < a {
		return PortRange{}, fmt.Errorf("ports %q: must be first-last, within 1 to 65535, such as 20000-29999", s)
	}
	return PortRange{int32(a), int32(b)}, nil
}

// Contains says whether a port lies in the range.
func (r PortRange) Contains(n int32) bool { return n > 0 && r.First <= n && n <= r.Last }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// size is how many ports there are.
func (r PortRange) size() int64 {
	if r.First == 0 {
		return 0
	}
	return int64(r.Last-r.First) + 1
}
