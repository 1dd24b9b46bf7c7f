package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Ledger is an index over the Addresses. It is not safe for concurrent use.
type Ledger struct {
	entries map[string]Entry
	// byAddress names the entries of whole addresses, byPort those of single ports.
	byAddress map[netip.Addr]string
	byPort    map[What]string
	parts     map[netip.Addr]int // single ports held of an address
	byHolder  map[Ref]map[string]struct{}
	usage     map[string]*Usage
	pools     map[string]*poolState
	frozen    map[string]Frozen
	hosts     map[string][]netip.Addr // own addresses, by pool of proxies
	away      map[string][]netip.Addr // those of hosts that can't serve now
}

type poolState struct {
	Pool
	v4, v6             *allocator
	granted, releasing int64
	outside            int64
	numbers            map[numbered]int // entries of single ports, by address and number
	everywhere         map[familyPort]int
	servedBy           map[string]int // entries by pool of proxies
	overlaps           []string
}

// numbered is a port's number on an address, whatever its protocol.
type numbered struct {
	address netip.Addr
	number  int32
}

// familyPort is a port of a family's addresses: everywhere counts those of the pool's on which it is held by itself.
type familyPort struct {
	Family
	Port
}

// Usage is what the LoadBalancers of one namespace hold.
type Usage struct {
	// LoadBalancers with Granted addresses and their Ports, each counted once on however many addresses.
	LoadBalancers, Ports int
	// Addresses held, those that are being released included: whole, or by port. Those of proxies' hosts are nobody's.
	Addresses int
	// Releasing of them.
	Releasing int
	// PerPool counts grants by pool: Addresses, or ports where each is granted by itself.
	PerPool map[string]int
	// byPort counts the ports held of an address.
	byPort map[netip.Addr]parts
	moved  moved
}

// moved is what went to another hub and stays reserved here. It is nobody's use, and counts where bounds are checked: whoever
// has his LoadBalancers move gets no more than who keeps them. Each entry counts as a LoadBalancer, for names are used again.
type moved struct {
	entries, addresses, ports int
	perPool                   map[string]int
}

// parts are the ports held of an address, those of them that are being released, and those that moved to another hub.
type parts struct{ all, releasing, moved int }

// New returns a ledger without pools and entries.
func New() *Ledger {
	return &Ledger{
		entries: map[string]Entry{}, byAddress: map[netip.Addr]string{}, byPort: map[What]string{}, parts: map[netip.Addr]int{}, byHolder: map[Ref]map[string]struct{}{},
		usage: map[string]*Usage{}, pools: map[string]*poolState{},
	}
}

// Get returns the entry of that name.
func (l *Ledger) Get(name string) (Entry, bool) {
	e, ok := l.entries[name]
	return e, ok
}

// At returns the entry that holds the whole address.
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
		c.PerPool, c.byPort, c.moved = maps.Clone(u.PerPool), nil, moved{}
		return c
	}
	return Usage{}
}

// Set adds or replaces an entry.
func (l *Ledger) Set(e Entry) {
	if old, ok := l.entries[e.Name]; ok {
		if old.What() == e.What() {
			l.count(old, -1)
		} else {
			l.Delete(e.Name)
		}
	}
	if _, ok := l.entries[e.Name]; !ok {
		was := l.isHeld(e.Address)
		if w := e.What(); e.ByPort() {
			l.byPort[w] = e.Name
			l.parts[e.Address]++
		} else {
			l.byAddress[e.Address] = e.Name
		}
		if p, i, a := l.poolAt(e.Address); !was && p != nil && i >= 0 {
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
	if w := e.What(); e.ByPort() {
		if l.byPort[w] == name {
			delete(l.byPort, w)
		}
		if l.parts[e.Address]--; l.parts[e.Address] == 0 {
			delete(l.parts, e.Address)
		}
	} else if l.byAddress[e.Address] == name {
		delete(l.byAddress, e.Address)
	}
	if p, i, a := l.poolAt(e.Address); !l.isHeld(e.Address) && p != nil && i >= 0 {
		a.gave(i, e.Address)
	}
}

// isHeld says that an address is held, or a port of it.
func (l *Ledger) isHeld(a netip.Addr) bool {
	_, whole := l.byAddress[a]
	return whole || l.parts[a] > 0
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
			u = &Usage{PerPool: map[string]int{}, byPort: map[netip.Addr]parts{}, moved: moved{perPool: map[string]int{}}}
			l.usage[h.Namespace] = u
		}
		isServed, hasPorts := l.served(h.Ref)
		u.LoadBalancers += isServed - wasServed
		u.Ports += hasPorts - hadPorts
		perPool, first := u.PerPool, !seen[h.Namespace]
		if e.Phase == Moved {
			perPool = u.moved.perPool
			u.moved.ports += sign * len(h.Ports)
		}
		if seen[h.Namespace] = true; !first {
			continue
		}
		u.address(e, sign)
		if e.Phase == Moved {
			u.moved.entries += sign
		}
		if perPool[e.Pool] += sign; perPool[e.Pool] == 0 {
			delete(perPool, e.Pool)
		}
	}
	for _, h := range e.Holders {
		if u := l.usage[h.Namespace]; u != nil && len(u.PerPool) == 0 && u.moved.entries == 0 {
			delete(l.usage, h.Namespace)
		}
	}
}

// address counts an entry's address, or takes it out. One that is held by port counts while one of its ports does, and as
// being released once all of them are.
func (u *Usage) address(e Entry, sign int) {
	more := parts{all: sign}
	switch e.Phase {
	case Releasing:
		more.releasing = sign
	case Moved:
		more = parts{moved: sign}
	}
	switch {
	case e.OfHosts():
		return
	case !e.ByPort():
		u.Addresses += more.all
		u.Releasing += more.releasing
		u.moved.addresses += more.moved
		return
	}
	was := u.byPort[e.Address]
	is := parts{was.all + more.all, was.releasing + more.releasing, was.moved + more.moved}
	if u.byPort[e.Address] = is; is == (parts{}) {
		delete(u.byPort, e.Address)
	}
	u.Addresses += min(is.all, 1) - min(was.all, 1)
	u.Releasing += is.whole() - was.whole()
	u.moved.addresses += is.gone() - was.gone()
}

// gone is 1 if ports of the address moved to another hub, and none is held.
func (p parts) gone() int {
	if p.all > 0 {
		return 0
	}
	return min(p.moved, 1)
}

// whole is 1 if all ports of the address are being released.
func (p parts) whole() int {
	if p.all > 0 && p.all == p.releasing {
		return 1
	}
	return 0
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
	if !p.has(e) {
		p.outside += sign
	}
	if n := (numbered{e.Address, e.Port.Number}); e.ByPort() {
		if p.numbers[n] += int(sign); p.numbers[n] == 0 {
			delete(p.numbers, n)
		}
	}
	if f := (familyPort{FamilyOf(e.Address), e.Port}); e.ByPort() && !e.OfHosts() && p.has(e) {
		if p.everywhere[f] += int(sign); p.everywhere[f] == 0 {
			delete(p.everywhere, f)
		}
	}
	switch e.Phase {
	case Granted:
		p.granted += sign
	default:
		p.releasing += sign
	}
}

// has says that an entry is one that the pool could grant.
func (p *poolState) has(e Entry) bool {
	if e.OfHosts() {
		return p.Hosts == e.ProxyPool && p.HostPorts.Contains(e.Port.Number)
	}
	return p.allocator(e.Address).index(e.Address) >= 0
}
