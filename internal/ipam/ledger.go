package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Ledger is an index over the Addresses. It is not safe for concurrent use.
type Ledger struct {
	entries   map[string]Entry
	byAddress map[netip.Addr]string
	byHolder  map[Ref]map[string]struct{}
	usage     map[string]*Usage
	pools     map[string]*poolState
	frozen    map[string]Frozen
}

type poolState struct {
	Pool
	v4, v6             *allocator
	granted, releasing int64
	servedBy           map[string]int // entries by pool of proxies
	overlaps           []string
}

// Usage is what the LoadBalancers of one namespace hold.
type Usage struct {
	// LoadBalancers with Granted addresses and their Ports, each counted once on however many addresses.
	LoadBalancers, Ports int
	// Addresses held, those that are being released included.
	Addresses int
	// Releasing of them.
	Releasing int
	// PerPool counts Addresses by pool.
	PerPool map[string]int
}

// New returns a ledger without pools and entries.
func New() *Ledger {
	return &Ledger{
		entries: map[string]Entry{}, byAddress: map[netip.Addr]string{}, byHolder: map[Ref]map[string]struct{}{},
		usage: map[string]*Usage{}, pools: map[string]*poolState{},
	}
}

// Get returns the entry of that name.
func (l *Ledger) Get(name string) (Entry, bool) {
	e, ok := l.entries[name]
	return e, ok
}

// At returns the entry that holds the address.
func (l *Ledger) At(a netip.Addr) (Entry, bool) { return l.Get(l.byAddress[a.Unmap()]) }

// HeldBy returns the entries that name r as holder, in whatever phase, oldest first.
func (l *Ledger) HeldBy(r Ref) []Entry {
	names := l.byHolder[r]
	if len(names) == 0 {
		return nil
	}
	out := make([]Entry, 0, len(names))
	for name := range names {
		out = append(out, l.entries[name])
	}
	slices.SortFunc(out, compareAges)
	return out
}

// compareAges puts the oldest entry first; those that aren't written come last.
func compareAges(a, b Entry) int {
	if a.Created.IsZero() != b.Created.IsZero() {
		if a.Created.IsZero() {
			return 1
		}
		return -1
	}
	return cmp.Or(a.Created.Compare(b.Created), a.Address.Compare(b.Address), cmp.Compare(a.Name, b.Name))
}

// All returns the entries sorted by name.
func (l *Ledger) All() []Entry {
	out := slices.Collect(maps.Values(l.entries))
	slices.SortFunc(out, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// UsageOf returns what a namespace holds.
func (l *Ledger) UsageOf(namespace string) Usage {
	if u := l.usage[namespace]; u != nil {
		c := *u
		c.PerPool = maps.Clone(u.PerPool)
		return c
	}
	return Usage{}
}

// Set adds or replaces an entry.
func (l *Ledger) Set(e Entry) {
	if old, ok := l.entries[e.Name]; ok {
		if old.Address == e.Address {
			l.count(old, -1)
		} else {
			l.Delete(e.Name)
		}
	}
	if _, ok := l.entries[e.Name]; !ok {
		l.byAddress[e.Address] = e.Name
		if p, i, a := l.poolAt(e.Address); p != nil && i >= 0 {
			a.took()
		}
	}
	l.entries[e.Name] = e
	l.count(e, 1)
}

// Delete removes an entry.
func (l *Ledger) Delete(name string) {
	e, ok := l.entries[name]
	if !ok {
		return
	}
	l.count(e, -1)
	delete(l.entries, name)
	if l.byAddress[e.Address] == name {
		delete(l.byAddress, e.Address)
	}
	if p, i, a := l.poolAt(e.Address); p != nil && i >= 0 {
		a.gave(i, e.Address)
	}
}

// count adds the entry to all sums, or takes it out of them.
func (l *Ledger) count(e Entry, sign int) {
	if p := l.pools[e.Pool]; p != nil {
		p.tally(e, int64(sign))
	}
	seen := map[string]bool{}
	for _, h := range e.Holders {
		wasServed, hadPorts := l.served(h.Ref)
		names := l.byHolder[h.Ref]
		switch {
		case sign > 0 && names == nil:
			l.byHolder[h.Ref] = map[string]struct{}{e.Name: {}}
		case sign > 0:
			names[e.Name] = struct{}{}
		default:
			if delete(names, e.Name); len(names) == 0 {
				delete(l.byHolder, h.Ref)
			}
		}
		u := l.usage[h.Namespace]
		if u == nil {
			u = &Usage{PerPool: map[string]int{}}
			l.usage[h.Namespace] = u
		}
		isServed, hasPorts := l.served(h.Ref)
		u.LoadBalancers += isServed - wasServed
		u.Ports += hasPorts - hadPorts
		// What moved is held here for another hub, not for the namespace.
		if !seen[h.Namespace] && e.Phase != Moved {
			seen[h.Namespace] = true
			u.Addresses += sign
			if u.PerPool[e.Pool] += sign; u.PerPool[e.Pool] == 0 {
				delete(u.PerPool, e.Pool)
			}
			if e.Phase == Releasing {
				u.Releasing += sign
			}
		}
	}
	for _, h := range e.Holders {
		if u := l.usage[h.Namespace]; u != nil && u.Addresses == 0 {
			delete(l.usage, h.Namespace)
		}
	}
}

// served is 1 for a LoadBalancer with a Granted address, else 0, and how many different ports it has.
func (l *Ledger) served(r Ref) (served, ports int) {
	var granted []Entry
	for name := range l.byHolder[r] {
		if e := l.entries[name]; e.Phase == Granted {
			granted = append(granted, e)
		}
	}
	if len(granted) == 0 {
		return 0, 0
	}
	return 1, len(portsOf(r, granted))
}

// usageOf is UsageOf without a copy.
func (l *Ledger) usageOf(namespace string) *Usage {
	if u := l.usage[namespace]; u != nil {
		return u
	}
	return &Usage{}
}

func (p *poolState) tally(e Entry, sign int64) {
	p.servedBy[e.ProxyPool] += int(sign)
	switch e.Phase {
	case Granted:
		p.granted += sign
	default:
		p.releasing += sign
	}
}

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
		s := &poolState{Pool: p, servedBy: map[string]int{}}
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
		if p, i, a := l.poolAt(e.Address); p != nil && i >= 0 {
			a.took()
		}
	}
}

// Counts of a pool.
type Counts struct {
	// Free addresses that can be granted; Granted; and Releasing, Moved included.
	Free, Granted, Releasing int64
	// Overlaps names the older pools that keep some of this pool's ranges.
	Overlaps []string
}

// CountsOf counts a pool.
func (l *Ledger) CountsOf(pool string) Counts {
	p := l.pools[pool]
	if p == nil {
		return Counts{}
	}
	free := p.v4.free()
	if n := p.v6.free(); free > free+n {
		free = p.v6.size
	} else {
		free += n
	}
	return Counts{Free: max(free, 0), Granted: p.granted, Releasing: p.releasing, Overlaps: slices.Clone(p.overlaps)}
}
