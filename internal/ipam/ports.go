package ipam

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// SetHosts replaces the own addresses of the proxies' hosts, by pool of proxies. Away are those of hosts that can't serve now, and may again.
func (l *Ledger) SetHosts(hosts, away map[string][]netip.Addr) { l.hosts, l.away = hosts, away }

// OfHosts names the pools that have the addresses of hosts.
func (l *Ledger) OfHosts() []string {
	var out []string
	for name, p := range l.pools {
		if p.Hosts != "" {
			out = append(out, name)
		}
	}
	return out
}

// OnHosts are the LoadBalancers that hold ports of the hosts of a pool of proxies, each once.
func (l *Ledger) OnHosts(proxyPool string) []Ref {
	seen := map[Ref]struct{}{}
	for w, name := range l.byPort {
		if w.Hosts == proxyPool {
			for _, h := range l.entries[name].Holders {
				seen[h.Ref] = struct{}{}
			}
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// hostsHave says that hosts have an address of the family. While none is known, any may be.
func (l *Ledger) hostsHave(proxyPool string, f Family) bool {
	return len(l.hosts[proxyPool]) == 0 || slices.ContainsFunc(l.hosts[proxyPool], f.Has)
}

// gone says that an entry is of hosts, none of which has an address of its family, or may have it again.
func (l *Ledger) gone(e Entry) bool {
	f := FamilyOf(e.Address)
	return e.OfHosts() && !l.hostsHave(e.ProxyPool, f) && !slices.ContainsFunc(l.away[e.ProxyPool], f.Has)
}

// rehoused grants its ports of hosts anew where no host has an address of their family, and any family will do: they were
// granted before a host was known, or all those have gone.
func (c *chooser) rehoused(granted []Entry) []Step {
	pool := granted[0].Pool
	if c.family != AnyFamily || slices.ContainsFunc(granted, func(e Entry) bool {
		return !c.gone(e) || e.Pool != pool || e.ProxyPool != c.ProxyPool
	}) {
		return nil
	}
	c.leaving[pool] += len(granted)
	s, _ := c.fresh() // why it stays is that no host serves it, which its proxies say
	c.leaving[pool] -= len(granted)
	return s
}

// rehomed are the entries of a LoadBalancer of any family without those that are gone, once one of hosts takes their place.
func (c *chooser) rehomed(granted []Entry) []Entry {
	if c.family != AnyFamily || !slices.ContainsFunc(granted, func(e Entry) bool { return e.OfHosts() && !c.gone(e) }) {
		return granted
	}
	return slices.DeleteFunc(slices.Clone(granted), c.gone)
}

// poolOfHost is the first of the pools that has the addresses of hosts, if want is one of them; else nil.
func (c *chooser) poolOfHost(want netip.Addr) *poolState {
	for _, name := range c.Pools {
		if p := c.pools[name]; p != nil && p.Hosts == c.ProxyPool && p.Hosts != "" && slices.Contains(c.hosts[p.Hosts], want) {
			return p
		}
	}
	return nil
}

// freshPorts grants all ports together on the first address of the pool where nobody else has one of them. What is
// asked for by name is granted while the hub is restored too.
func (c *chooser) freshPorts(pool *poolState, named bool) ([]Step, *problem) {
	if p := c.checkPool(pool); p != nil {
		return nil, p
	}
	if p := c.checkFamily(pool); p != nil {
		return nil, p
	}
	if p := checkRestoring(pool); p != nil && !named {
		return nil, p
	}
	if pool.Hosts != "" {
		at := netip.IPv4Unspecified()
		if c.family == IPv6 || c.family == AnyFamily && !c.hostsHave(pool.Hosts, IPv4) {
			at = netip.IPv6Unspecified()
		}
		return c.portsAt(pool, at)
	}
	if pool.sizeOf(c.family) == 0 {
		return nil, c.exhausted(pool)
	}
	if at, ok := c.firstWith(pool); ok {
		s, p := c.portsAt(pool, at)
		if p != nil && p.reason == clusterv1.ReasonQuotaExceeded {
			if had := c.hadPorts(pool); len(had) > 0 {
				return had, nil
			}
		}
		return s, p
	}
	var ranges []Range
	for _, a := range pool.allocators(c.family) {
		ranges = append(ranges, a.ranges...)
	}
	if len(ranges) == 1 && ranges[0].Size() == 1 {
		return c.portsAt(pool, ranges[0].First)
	}
	return nil, problemf(clusterv1.ReasonPortInUse, "Others hold %s on each address of address pool %s: use other ports, or ask the hub's operator to extend the pool. They are granted as soon as they are free on one address.", portList(c.Ports), pool.Name)
}

// firstWith is the first address of the pool on which it can have all ports.
func (c *chooser) firstWith(pool *poolState) (netip.Addr, bool) {
	for _, a := range pool.allocators(c.family) {
		if a.size == 0 || slices.ContainsFunc(c.Ports, func(p Port) bool { return c.everywhere(pool, a, p) }) {
			continue
		}
		for _, r := range a.ranges {
			for at := r.First; at.IsValid() && r.Contains(at); at = at.Next() {
				if c.canHave(pool, at) {
					return at, true
				}
			}
		}
	}
	return netip.Addr{}, false
}

// everywhere says that others hold a port on every address of a family, without a look at each.
func (c *chooser) everywhere(pool *poolState, a *allocator, p Port) bool {
	f := FamilyOf(a.ranges[0].First)
	others := pool.everywhere[familyPort{f, p}]
	for _, own := range [][]Entry{c.allGranted, c.allReleasing} {
		for _, e := range own {
			if e.Pool == pool.Name && e.Port == p && f.Has(e.Address) {
				others--
			}
		}
	}
	return int64(others) >= a.size
}

// canHave says that it can have all ports at an address, bounds aside.
func (c *chooser) canHave(pool *poolState, at netip.Addr) bool {
	return !slices.ContainsFunc(c.Ports, func(p Port) bool { return !c.available(pool, at, p) })
}

// hadPorts grants the ports on the first address of the pool where the namespace has some already: none of its addresses is more.
func (c *chooser) hadPorts(pool *poolState) []Step {
	if c.Owner.Quota.Addresses == Unbounded || c.checkQuota(pool, more{}) != nil {
		return nil
	}
	had := slices.SortedFunc(maps.Keys(c.usageOf(c.Namespace).byPort), netip.Addr.Compare)
	for _, at := range had {
		if c.family.Has(at) && pool.allocator(at).index(at) >= 0 && c.canHave(pool, at) {
			if s, p := c.portsAt(pool, at); p == nil {
				return s
			}
		}
	}
	return nil
}

// taken tells the reasons that another address may not have.
func taken(reason string) bool {
	return reason == clusterv1.ReasonPortInUse || reason == clusterv1.ReasonAddressInUse
}

func portList(ports []Port) string {
	var names []string
	for _, p := range ports {
		names = append(names, p.String())
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("%d more", len(names)-3))
	}
	if len(ports) == 1 {
		return "port " + names[0]
	}
	return "one of the ports " + strings.Join(names, ", ")
}

// portsAt grants all ports at one address, or none.
func (c *chooser) portsAt(pool *poolState, at netip.Addr) ([]Step, *problem) {
	var steps []Step
	for _, p := range c.Ports {
		s, why := c.port(pool, at, p)
		if why != nil {
			return nil, why
		}
		steps = append(steps, s)
	}
	m := c.moreFor(pool, at, steps)
	if p := c.checkQuota(pool, m); p != nil {
		return nil, p
	}
	if p := c.checkFrozen(pool.Name); p != nil && slices.ContainsFunc(steps, func(s Step) bool { return s.Action == Create }) {
		return nil, p
	}
	c.claim(pool.Name, m)
	return steps, nil
}

// moreFor is what steps at an address take beyond what the namespace holds.
func (c *chooser) moreFor(pool *poolState, at netip.Addr, steps []Step) (m more) {
	for _, s := range steps {
		if s.Action == Create {
			m.grants++
		}
	}
	if u := c.usageOf(c.Namespace); m.grants > 0 && pool.Hosts == "" && u.byPort[at] == (parts{}) {
		m.addresses = 1
	}
	return m
}

// port says what is to be done for it to have a port at an address of the pool, or why it can't.
func (c *chooser) port(pool *poolState, at netip.Addr, p Port) (Step, *problem) {
	w := What{at, pool.Hosts, p}
	e, held := c.entries[c.byPort[w]]
	switch ok := c.available(pool, at, p); {
	case ok && !held:
		return Step{Create, Entry{Name: w.Name(), Address: at, Port: p, Pool: pool.Name, ProxyPool: c.ProxyPool, Phase: Granted, Holders: []Holder{{c.Ref, []Port{p}}}}}, nil
	case ok && e.Phase == Granted:
		return Step{Keep, e}, nil
	case ok:
		e.Phase = Granted
		return Step{Change, e}, nil
	}
	if pool.Hosts != "" && !pool.HostPorts.Contains(p.Number) {
		return Step{}, problemf(clusterv1.ReasonPortNotPermitted, "Port %s can't be had from address pool %s, which gives the ports %s of the proxies' hosts: use one of those, or another pool.", p, pool.Name, pool.HostPorts)
	}
	if whole, ok := c.At(at); ok {
		return Step{}, problemf(clusterv1.ReasonAddressInUse, "The address %s is held as a whole by %s: want another, or none.", at, c.whose(whole))
	}
	switch {
	case e.Phase == Moved:
		return Step{}, problemf(clusterv1.ReasonPortInUse, "%s moved to another hub with its holder: use another, or have the hub's operator delete the Address %s once no other hub serves it.", capital(w.String()), e.Name)
	case e.Phase == Releasing:
		return Step{}, problemf(clusterv1.ReasonPortInUse, "%s is still being released by %s: it is granted as soon as every proxy has stopped serving it.", capital(w.String()), c.whose(e))
	case pool.Hosts != "":
		return Step{}, problemf(clusterv1.ReasonPortInUse, "%s is held by %s: use another port.", capital(w.String()), c.whose(e))
	}
	return Step{}, problemf(clusterv1.ReasonPortInUse, "%s is held by %s: use another port, or another address.", capital(w.String()), c.whose(e))
}

// available says that it has a port at an address of the pool, or can have it, bounds aside.
func (c *chooser) available(pool *poolState, at netip.Addr, p Port) bool {
	if _, whole := c.byAddress[at]; whole || pool.Hosts != "" && !pool.HostPorts.Contains(p.Number) {
		return false
	}
	name, held := c.byPort[What{at, pool.Hosts, p}]
	if !held {
		return true
	}
	e := c.entries[name]
	_, mine := e.Holder(c.Ref)
	return mine && (e.Phase == Granted || e.Phase == Releasing && e.ProxyPool == c.ProxyPool && e.Pool == pool.Name)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// whose says who holds an entry, and names nothing of another tenant.
func (c *chooser) whose(e Entry) string {
	for _, h := range e.Holders {
		if h.Namespace == c.Namespace {
			return "LoadBalancer " + h.Name
		}
	}
	return "another tenant"
}

// keepPorts is for a LoadBalancer that has ports of an address: it keeps those that it still asks for, and gets the others
// that it can have there. Where it can have none of those that it asks for, it moves.
func (c *chooser) keepPorts(kept Entry, granted []Entry) ([]Step, *problem) {
	pool := c.pools[kept.Pool]
	steps, all := []Step(nil), []Step(nil)
	has := map[Port]bool{}
	for _, e := range granted {
		if !e.ByPort() || e.Address != kept.Address || e.ProxyPool != kept.ProxyPool {
			continue
		}
		has[e.Port] = true
		if all = append(all, Step{Keep, e}); slices.Contains(c.Ports, e.Port) {
			steps = append(steps, Step{Keep, e})
		}
	}
	if p := c.checkFrozen(kept.Pool); p != nil && len(steps) < len(all) {
		return all, p // what it wants no more may be what runs
	}
	note := c.checkProxies(kept)
	before := c.leaving[kept.Pool]
	if c.given(granted) != nil {
		c.leaving[kept.Pool] += len(all) - len(steps)
	}
	if note == nil && len(steps) < len(c.Ports) {
		var got []Step
		if got, note = c.otherPorts(pool, kept, has); len(got) > 0 {
			c.claim(pool.Name, c.moreFor(pool, kept.Address, got))
			steps = append(steps, got...)
		}
	}
	if len(steps) > 0 {
		return steps, note
	}
	if note != nil && taken(note.reason) && len(c.wishes()) == 0 {
		if s, p := c.fresh(); p == nil {
			return s, nil
		}
	}
	c.leaving[kept.Pool] = before // nothing goes
	return all, note
}

// otherPorts are those that it can have beside those that it has at an address, and why not all.
func (c *chooser) otherPorts(pool *poolState, kept Entry, has map[Port]bool) (got []Step, note *problem) {
	if pool == nil {
		return nil, problemf(clusterv1.ReasonPoolNotFound, "Address pool %s does not exist any more: the hub's operator creates it, or delete the LoadBalancer and create it again.", kept.Pool)
	}
	if p := c.checkPool(pool); p != nil {
		return nil, p
	}
	for _, p := range c.Ports {
		if has[p] {
			continue
		}
		s, why := c.port(pool, kept.Address, p)
		if why == nil {
			got = append(got, s)
		} else if note == nil {
			note = why
		}
	}
	m := c.moreFor(pool, kept.Address, got)
	u := c.usageOf(c.Namespace)
	switch q := c.Owner.Quota.Ports; {
	case q != Unbounded && len(got) > 0 && u.Ports+u.moved.ports+len(c.Ports)-c.portsHeld > q && len(c.Ports) > c.portsHeld:
		return nil, quotaProblem("ports", u.Ports, q, 0, u.moved.ports, len(c.Ports)-c.portsHeld)
	case m.grants == 0:
		return got, note
	}
	if p := c.checkPerTenant(pool, m.grants); p != nil {
		return nil, p
	}
	if p := c.checkFrozen(pool.Name); p != nil {
		return nil, p
	}
	return got, note
}

// freePorts is how many numbers of ports nobody holds, with whatever protocol.
func (p *poolState) freePorts() int64 {
	if p.Hosts != "" {
		used := map[int32]struct{}{}
		for n := range p.numbers {
			if p.HostPorts.Contains(n.number) {
				used[n.number] = struct{}{}
			}
		}
		return p.HostPorts.size() - int64(len(used))
	}
	size := p.v4.size
	if n := p.v6.size; size > math.MaxInt64-n {
		size = math.MaxInt64
	} else {
		size += n
	}
	if size > math.MaxInt64/math.MaxUint16 {
		return math.MaxInt64
	}
	free := size * math.MaxUint16
	for n := range p.numbers {
		if p.allocator(n.address).index(n.address) >= 0 {
			free--
		}
	}
	return free
}
