package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// MaxHolders of one address, and MaxPorts of one holder on it: an Address names no more.
const (
	MaxHolders = 64
	MaxPorts   = 100
)

// problem is why not; nil: nothing.
type problem struct{ reason, message string }

func problemf(reason, format string, args ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// chooser decides one LoadBalancer's addresses, a family at a time.
type chooser struct {
	*Ledger
	Needs
	settled func(Entry) bool

	allGranted, allReleasing []Entry
	portsHeld                int // different ones, on all addresses

	family Family // the one that is being decided
	// What families before this one take beyond what is held: addresses, and grants by pool.
	claimed   int
	claimedOf map[string]int
	leaving   map[string]int // ports that it gives up for what it takes, by pool
	note      *problem       // the first wish that is not fulfilled
}

func (c *chooser) remember(p *problem) {
	if c.note == nil {
		c.note = p
	}
}

func (c *chooser) claim(pool string, m more) {
	c.claimed += m.addresses
	c.claimedOf[pool] += m.grants
}

// one decides the address of one family: one step, or one for each port where these are granted by themselves. Without any it
// has to wait, for the reason returned; with some, the reason says which wish is not fulfilled.
func (c *chooser) one(f Family) ([]Step, *problem) {
	c.family = f
	var granted []Entry
	for _, e := range c.allGranted {
		if f.Has(e.Address) {
			granted = append(granted, e)
		}
	}
	if len(granted) > 0 {
		if s := c.rehoused(granted); len(s) > 0 {
			return s, nil
		}
		return c.held(c.rehomed(granted))
	}
	if s, p := c.tryWishes(); len(s) > 0 || p != nil {
		return s, p
	}
	for _, e := range c.allReleasing {
		if s := c.tryReturn(e); len(s) > 0 {
			return s, nil
		}
	}
	return c.fresh()
}

// wishes are the wanted addresses of the family.
func (c *chooser) wishes() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(c.Wanted), func(a netip.Addr) bool { return !c.family.Has(a) })
}

// held is for a family of which it has an address.
func (c *chooser) held(granted []Entry) ([]Step, *problem) {
	wishes := c.wishes()
	kept := granted[0]
	for _, e := range granted {
		if c.meets(wishes, e) {
			kept = e
			break
		}
	}
	keep := func() ([]Step, *problem) {
		if kept.ByPort() {
			return c.keepPorts(kept, granted)
		}
		s, note := c.keep(kept)
		return []Step{s}, note
	}
	if len(wishes) == 0 || c.meets(wishes, kept) {
		return keep()
	}
	s, refusal := c.tryWishes()
	if len(s) > 0 {
		return s, nil
	}
	s, note := keep()
	if note == nil {
		note = problemf(refusal.reason, "%s Meanwhile the LoadBalancer keeps %s.", refusal.message, c.place(kept))
	}
	return s, note
}

// meets says that an entry is what one of the wishes asks for.
func (c *chooser) meets(wishes []netip.Addr, e Entry) bool {
	return slices.ContainsFunc(wishes, func(a netip.Addr) bool {
		return a == e.Address || e.OfHosts() && slices.Contains(c.hosts[e.ProxyPool], a)
	})
}

// place names the address of an entry to people.
func (c *chooser) place(e Entry) string {
	if e.OfHosts() {
		return "the addresses of the proxies' hosts"
	}
	return e.Address.String()
}

// keep is for an address that stays: its ports may have changed.
func (c *chooser) keep(e Entry) (Step, *problem) {
	s := Step{Keep, e}
	if e.ByPort() {
		return s, nil
	}
	var note *problem
	holder, _ := e.Holder(c.Ref)
	if !slices.Equal(holder.Ports, c.Ports) {
		ports, p := c.portsOn(e, holder.Ports)
		if !slices.Equal(ports, holder.Ports) {
			s = Step{Change, e.With(c.Ref, ports)}
		}
		note = p
	}
	if p := c.checkProxies(e); p != nil {
		note = p
	}
	return s, note
}

// checkProxies says that others than the class's proxies serve what is held.
func (c *chooser) checkProxies(e Entry) *problem {
	if e.ProxyPool == c.ProxyPool {
		return nil
	}
	return problemf(clusterv1.ReasonNotServed, "The class's proxies changed from pool %s to pool %s after %s was granted: change the class back, or delete the LoadBalancer and create it again.",
		e.ProxyPool, c.ProxyPool, e.What())
}

// portsOn returns which of its ports it gets on e, of which it has some already, and why not all. What
// others hold costs those ports alone. Where the quota is too small it keeps what it has and still needs.
func (c *chooser) portsOn(e Entry, has []Port) ([]Port, *problem) {
	if p := c.checkFrozen(e.Pool); p != nil && len(intersect(has, c.Ports)) < len(has) {
		return has, p // What it wants no more may be what runs: the proxies that serve it would have it adopted again.
	}
	note := c.checkPorts(e, c.Ports, 0)
	ports := c.Ports
	for _, h := range e.Holders {
		if h.Ref != c.Ref {
			ports = slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return slices.Contains(h.Ports, p) })
		}
	}
	if p := c.checkPorts(e, ports, len(ports)-c.portsHeld); p != nil {
		return intersect(has, ports), p
	}
	if had := intersect(has, ports); len(had) < len(ports) {
		if p := c.checkSettled(c.pools[e.Pool], e); p != nil {
			return had, p
		}
		if p := c.checkFrozen(e.Pool); p != nil {
			return had, p
		}
	}
	return ports, note
}

func intersect(a, b []Port) []Port {
	var out []Port
	for _, p := range a {
		if slices.Contains(b, p) {
			out = append(out, p)
		}
	}
	return out
}

// portsOf are the different ports that a LoadBalancer has on those entries.
func portsOf(r Ref, entries []Entry) []Port {
	var out []Port
	for _, e := range entries {
		h, _ := e.Holder(r)
		if len(entries) == 1 {
			return h.Ports
		}
		out = append(out, h.Ports...)
	}
	return SortPorts(out)
}

// tryWishes tries what is wanted by name; neither action nor reason: nothing is.
func (c *chooser) tryWishes() ([]Step, *problem) {
	var first *problem
	for _, want := range c.wishes() {
		s, p := c.tryWish(want.Unmap())
		if p == nil {
			return s, nil
		}
		if first == nil {
			first = p
		}
	}
	return nil, first
}

func (c *chooser) tryWish(want netip.Addr) ([]Step, *problem) {
	for _, e := range c.allReleasing {
		if e.Address == want {
			if s := c.tryReturn(e); len(s) > 0 {
				return s, nil
			}
		}
	}
	pool, _, _ := c.poolAt(want)
	if hosts := c.poolOfHost(want); pool == nil && hosts != nil {
		return c.freshPorts(hosts, true) // no choice: all hosts' addresses are granted together
	}
	if pool == nil || !slices.Contains(c.Pools, pool.Name) {
		return nil, problemf(clusterv1.ReasonAddressNotInPool, "The wanted address %s is in none of the address pools that the LoadBalancer may use (%s): want another, or none.", want, list(c.Pools))
	}
	if p := c.checkPool(pool); p != nil {
		return nil, p
	}
	if c.Owner.Tenant != "" && !pool.Requestable && !pool.Restoring {
		return nil, problemf(clusterv1.ReasonAddressNotRequestable, "Pool %s does not let tenants choose addresses: leave %s out, or ask the hub's operator to set requestable on the pool.", pool.Name, want)
	}
	if pool.ByPort {
		return c.portsAt(pool, want)
	}
	if e, held := c.At(want); held {
		return c.tryJoin(pool, e)
	}
	if c.isHeld(want) {
		return nil, problemf(clusterv1.ReasonAddressInUse, "Ports of the wanted address %s are held by others: want another, or none.", want)
	}
	if p := c.checkQuota(pool, more{1, 1}); p != nil {
		return nil, p
	}
	if p := c.checkFrozen(pool.Name); p != nil {
		return nil, p
	}
	return c.create(pool, want), nil
}

// tryReturn gives a Releasing entry back to its own holder, if its pool has it still; one port with all others of the address that it asks for.
func (c *chooser) tryReturn(e Entry) []Step {
	pool := c.pools[e.Pool]
	if len(e.Holders) != 1 || e.ProxyPool != c.ProxyPool || pool == nil || !slices.Contains(c.Pools, e.Pool) || pool.Unusable != "" || !pool.Admits(c.Owner) || !pool.has(e) || c.gone(e) {
		return nil
	}
	wishes := c.wishes()
	if !c.family.Has(e.Address) || len(wishes) > 0 && !c.meets(wishes, e) {
		return nil
	}
	if e.ByPort() {
		if s, p := c.portsAt(pool, e.Address); p == nil {
			return s
		}
		return nil
	}
	if c.checkQuota(pool, more{}) != nil {
		return nil
	}
	ports := c.Ports
	if had := intersect(e.Holders[0].Ports, ports); len(had) < len(ports) && (c.checkSettled(pool, e) != nil || c.checkFrozen(pool.Name) != nil) {
		ports = had // the others come later
	}
	e = e.With(c.Ref, ports)
	e.Phase = Granted
	return []Step{{Change, e}}
}

// fresh gives the lowest free address of the first pool that has one; IPv4 first where either family will do.
func (c *chooser) fresh() ([]Step, *problem) {
	if len(c.Pools) == 0 {
		return nil, problemf(clusterv1.ReasonPoolNotFound, "The class names no address pools: the hub's operator adds some to its addressPools.")
	}
	var best *problem
	for _, name := range c.Pools {
		pool := c.pools[name]
		p := problemf(clusterv1.ReasonPoolNotFound, "Address pool %s does not exist: the hub's operator creates it, or mends the class.", name)
		switch {
		case pool != nil && pool.ByPort:
			var s []Step
			if s, p = c.freshPorts(pool, false); p == nil {
				return s, nil
			}
		case pool != nil:
			p = c.checkFresh(pool)
		}
		if p == nil {
			for _, a := range pool.allocators(c.family) {
				if free, ok := a.choose(c.isHeld); ok {
					return c.create(pool, free), nil
				}
			}
			p = c.exhausted(pool)
		}
		if best == nil || rank(p.reason) > rank(best.reason) {
			best = p
		}
	}
	switch {
	case best.reason == clusterv1.ReasonPoolNotAllowed && c.Owner.Tenant == "":
		best = problemf(clusterv1.ReasonNamespaceNotAdmitted, "Namespace %s belongs to no Tenant and no address pool of the class (%s) names it: the hub's operator sets use.namespaceSelector on a pool.", c.Namespace, list(c.Pools))
	case best.reason == clusterv1.ReasonFamilyNotInPool && len(c.Pools) > 1:
		best = problemf(clusterv1.ReasonFamilyNotInPool, "None of the address pools %s has %s addresses: %s", list(c.Pools), c.family, familyFix(c.family))
	}
	return nil, best
}

func (c *chooser) create(pool *poolState, a netip.Addr) []Step {
	c.claim(pool.Name, more{1, 1})
	return []Step{{Create, Entry{
		Name: AddressName(a), Address: a, Pool: pool.Name, ProxyPool: c.ProxyPool, Phase: Granted, Holders: []Holder{{c.Ref, c.Ports}},
	}}}
}

func (c *chooser) exhausted(pool *poolState) *problem {
	what := "address"
	if c.family != AnyFamily {
		what = string(c.family) + " address"
	}
	releasing := ""
	if n := c.CountsOf(pool.Name).Releasing; n > 0 {
		releasing = fmt.Sprintf(" (%d are being released)", n)
	}
	return problemf(clusterv1.ReasonPoolExhausted, "Address pool %s has no free %s%s: delete a LoadBalancer, or ask the hub's operator to extend the pool. An address is granted as soon as one is free.", pool.Name, what, releasing)
}

// rank says which of several pools' reasons helps most: the one that is nearest to a grant.
func rank(reason string) int {
	return slices.Index([]string{
		clusterv1.ReasonPoolNotFound, clusterv1.ReasonNotSupported, clusterv1.ReasonPoolNotAllowed, clusterv1.ReasonFamilyNotInPool,
		clusterv1.ReasonPortNotPermitted, clusterv1.ReasonQuotaExceeded, clusterv1.ReasonPending, clusterv1.ReasonHubChanged,
		clusterv1.ReasonPoolExhausted, clusterv1.ReasonAddressInUse, clusterv1.ReasonPortInUse,
	}, reason)
}
