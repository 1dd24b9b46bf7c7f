package ipam

import (
	"cmp"
	"net/netip"
	"slices"
)

// poolAt finds the pool whose own ranges hold the address.
func (l *Ledger) poolAt(addr netip.Addr) (*poolState, int, *allocator) {
	for _, p := range l.pools {
		a := p.allocator(addr)
		if i := a.index(addr); i >= 0 {
			return p, i, a
		}
	}
	return nil, -1, nil
}

func (p *poolState) allocator(addr netip.Addr) *allocator {
	if addr.Is4() {
		return p.v4
	}
	return p.v6
}

// allocators are those of a family, IPv4's first.
func (p *poolState) allocators(f Family) []*allocator {
	switch f {
	case IPv4:
		return []*allocator{p.v4}
	case IPv6:
		return []*allocator{p.v6}
	}
	return []*allocator{p.v4, p.v6}
}

// sizeOf is how many addresses of a family the pool has, held ones included; at most math.MaxInt64.
func (p *poolState) sizeOf(f Family) (size int64) {
	for _, a := range p.allocators(f) {
		size = max(size, a.size)
	}
	return size
}

// SetPools replaces the pools. Where ranges overlap, the older pool keeps the overlap.
func (l *Ledger) SetPools(pools []Pool) {
	pools = slices.Clone(pools)
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) })
	l.pools = make(map[string]*poolState, len(pools))
	var taken []cut
	for _, p := range pools {
		s := &poolState{Pool: p, servedBy: map[string]int{}, numbers: map[numbered]int{}, everywhere: map[familyPort]int{}}
		var own []Range
		var cuts []cut
		for _, r := range p.Ranges {
			// Within a pool, what an earlier range has isn't an overlap that anybody must mend.
			rest, _ := r.subtract(own)
			for _, older := range taken {
				var next []Range
				for _, r := range rest {
					kept, lost := r.subtract([]Range{older.Range})
					next = append(next, kept...)
					for _, c := range lost {
						cuts = append(cuts, cut{c, older.pool})
						if !slices.Contains(s.overlaps, older.pool) {
							s.overlaps = append(s.overlaps, older.pool)
						}
					}
				}
				rest = next
			}
			own = append(own, rest...)
		}
		var v4, v6 []Range
		for _, r := range own {
			if taken = append(taken, cut{r, p.Name}); r.First.Is4() {
				v4 = append(v4, r)
			} else {
				v6 = append(v6, r)
			}
		}
		s.v4, s.v6 = newAllocator(v4, cuts), newAllocator(v6, cuts)
		l.pools[p.Name] = s
	}
	for _, e := range l.entries {
		if p := l.pools[e.Pool]; p != nil {
			p.tally(e, 1)
		}
	}
	counted := map[netip.Addr]struct{}{}
	for _, e := range l.entries {
		if _, again := counted[e.Address]; again {
			continue
		}
		counted[e.Address] = struct{}{}
		if p, i, a := l.poolAt(e.Address); p != nil && i >= 0 {
			a.took()
		}
	}
}

// Counts of a pool.
type Counts struct {
	// Free addresses that can be granted; Granted; and Releasing, Moved included. By port: numbers of ports that nobody holds
	// with any protocol, and grants of ports.
	Free, Granted, Releasing int64
	// Outside are those granted or being released that lie in none of the pool's ranges of addresses, or ports of hosts, any more.
	Outside int64
	// Hostless: it has the addresses of hosts, and none is known.
	Hostless bool
	// Overlaps names the older pools that keep some of this pool's ranges.
	Overlaps []string
}

// CountsOf counts a pool.
func (l *Ledger) CountsOf(pool string) Counts {
	p := l.pools[pool]
	if p == nil {
		return Counts{}
	}
	c := Counts{
		Granted: p.granted, Releasing: p.releasing, Outside: p.outside, Overlaps: slices.Clone(p.overlaps),
		Hostless: p.Hosts != "" && len(l.hosts[p.Hosts]) == 0,
	}
	if p.ByPort {
		c.Free = p.freePorts()
		return c
	}
	free := p.v4.free()
	if n := p.v6.free(); free > free+n {
		free = p.v6.size
	} else {
		free += n
	}
	c.Free = max(free, 0)
	return c
}
