package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// Action is what is to be done to the ledger.
type Action string

const (
	// Keep: the LoadBalancer holds Entry as it is.
	Keep Action = "Keep"
	// Create: Entry is new.
	Create Action = "Create"
	// Change: an entry of this name exists and becomes Entry.
	Change Action = "Change"
	// Wait: nothing can be granted now.
	Wait Action = "Wait"
)

// Decision is what a LoadBalancer gets.
type Decision struct {
	Action Action
	Entry  Entry
	// Surplus are further entries of the LoadBalancer, to be given up once Entry is written.
	Surplus []Entry
	// Reason and Message say why it waits or, beside the other actions, which wish is not fulfilled:
	// a condition reason, and cause, then fix. They never name another tenant's objects.
	Reason, Message string
}

// MaxHolders of one address.
const MaxHolders = 64

// problem is why not; nil: nothing.
type problem struct{ reason, message string }

func problemf(reason, format string, args ...any) *problem {
	return &problem{reason, fmt.Sprintf(format, args...)}
}

// Decide says what n gets. It changes nothing: the caller Sets what it carries out.
// Grants stick: a LoadBalancer that holds an address keeps it, unless it wants
// another by name and can have that.
func (l *Ledger) Decide(n Needs) Decision {
	n.Ports = SortPorts(n.Ports)
	var granted, releasing []Entry
	for _, e := range l.HeldBy(n.Ref) {
		switch e.Phase {
		case Granted:
			granted = append(granted, e)
		case Releasing:
			releasing = append(releasing, e)
		}
	}
	if len(granted) > 0 {
		return l.decideHeld(n, granted, releasing)
	}
	if d, ok := l.decideWanted(n, releasing); ok {
		return d
	}
	for _, e := range releasing {
		if d, ok := l.tryReturn(n, e); ok {
			return d
		}
	}
	return l.decideNew(n)
}

// decideHeld is for a LoadBalancer with an address.
func (l *Ledger) decideHeld(n Needs, granted, releasing []Entry) Decision {
	keep := granted[0]
	for _, e := range granted {
		if slices.Contains(n.Wanted, e.Address) {
			keep = e
			break
		}
	}
	var note *problem
	if len(n.Wanted) > 0 && !slices.Contains(n.Wanted, keep.Address) {
		d, _ := l.decideWanted(n, releasing)
		if d.Action != Wait {
			d.Surplus = granted
			return d
		}
		note = problemf(d.Reason, "%s Meanwhile the LoadBalancer keeps %s.", d.Message, keep.Address)
	}
	d := Decision{Action: Keep, Entry: keep, Surplus: slices.DeleteFunc(slices.Clone(granted), func(e Entry) bool { return e.Name == keep.Name })}
	holder, _ := keep.Holder(n.Ref)
	if !slices.Equal(holder.Ports, n.Ports) {
		ports, p := l.portsOn(n, keep, holder.Ports)
		if !slices.Equal(ports, holder.Ports) {
			d.Action, d.Entry = Change, keep.With(n.Ref, ports)
		}
		if p != nil {
			note = p
		}
	}
	if keep.ProxyPool != n.ProxyPool {
		note = problemf(clusterv1.ReasonNotServed, "The class's proxies changed from pool %s to pool %s after %s was granted: change the class back, or delete the LoadBalancer and create it again.",
			keep.ProxyPool, n.ProxyPool, keep.Address)
	}
	if note != nil {
		d.Reason, d.Message = note.reason, note.message
	}
	return d
}

// portsOn returns which of its ports n gets on e, of which it has some already, and why not all. What
// others hold costs those ports alone. Where the quota is too small it keeps what it has and still needs.
func (l *Ledger) portsOn(n Needs, e Entry, has []Port) ([]Port, *problem) {
	note := l.checkPorts(n, e, 0)
	for _, h := range e.Holders {
		if h.Ref != n.Ref {
			n.Ports = slices.DeleteFunc(slices.Clone(n.Ports), func(p Port) bool { return slices.Contains(h.Ports, p) })
		}
	}
	if p := l.checkPorts(n, e, len(n.Ports)-len(has)); p != nil {
		return intersect(has, n.Ports), p
	}
	return n.Ports, note
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

// decideWanted tries the wishes; false: there are none.
func (l *Ledger) decideWanted(n Needs, releasing []Entry) (Decision, bool) {
	var first *problem
	for _, want := range n.Wanted {
		d, p := l.tryWanted(n, want, releasing)
		if p == nil {
			return d, true
		}
		if first == nil {
			first = p
		}
	}
	if first == nil {
		return Decision{}, false
	}
	return Decision{Action: Wait, Reason: first.reason, Message: first.message}, true
}

func (l *Ledger) tryWanted(n Needs, want netip.Addr, releasing []Entry) (Decision, *problem) {
	want = want.Unmap()
	for _, e := range releasing {
		if e.Address == want {
			if d, ok := l.tryReturn(n, e); ok {
				return d, nil
			}
		}
	}
	pool, _, _ := l.poolAt(want)
	if pool == nil || !slices.Contains(n.Pools, pool.Name) {
		return Decision{}, problemf(clusterv1.ReasonAddressNotInPool, "The wanted address %s is in none of the address pools that the LoadBalancer may use (%s): want another, or none.", want, list(n.Pools))
	}
	if p := l.checkPool(n, pool); p != nil {
		return Decision{}, p
	}
	if n.Owner.Tenant != "" && !pool.Requestable && !pool.Restoring {
		return Decision{}, problemf(clusterv1.ReasonAddressNotRequestable, "Pool %s does not let tenants choose addresses: leave %s out, or ask the hub's operator to set requestable on the pool.", pool.Name, want)
	}
	e, held := l.At(want)
	if !held {
		if p := l.checkQuota(n, pool, 1); p != nil {
			return Decision{}, p
		}
		return l.create(n, pool, want), nil
	}
	if p := l.checkJoin(n, pool, e); p != nil {
		return Decision{}, p
	}
	return Decision{Action: Change, Entry: e.With(n.Ref, n.Ports)}, nil
}

// checkJoin says why n can't share e, which others hold.
func (l *Ledger) checkJoin(n Needs, pool *poolState, e Entry) *problem {
	foreign := slices.ContainsFunc(e.Holders, func(h Holder) bool { return h.Namespace != n.Namespace })
	whose := "another tenant"
	if !foreign {
		whose = "another LoadBalancer of this namespace"
	}
	switch {
	case e.Phase == Moved:
		return problemf(clusterv1.ReasonAddressInUse, "The wanted address %s moved to another hub with its holder: want another.", e.Address)
	case e.Phase != Granted:
		return problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is still being released by %s: it is granted as soon as every proxy has stopped serving it.", e.Address, whose)
	case len(e.Holders) >= MaxHolders:
		return problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is shared by %d LoadBalancers already, which is the limit: want another.", e.Address, len(e.Holders))
	case e.ProxyPool != n.ProxyPool:
		return problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is served by other proxies than those of the class: want another, or choose the other class.", e.Address)
	case pool.Share == ShareNone || pool.Share != ShareAny && foreign:
		return problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is held by %s, and pool %s does not share it: want another, or none.", e.Address, whose, pool.Name)
	}
	if p := l.checkPorts(n, e, 0); p != nil {
		return p
	}
	addresses := 1
	if slices.ContainsFunc(e.Holders, func(h Holder) bool { return h.Namespace == n.Namespace }) {
		addresses = 0
	}
	return l.checkQuota(n, pool, addresses)
}

// checkPorts says why n can't have its ports on e: others hold one, or its quota has no room for more.
func (l *Ledger) checkPorts(n Needs, e Entry, more int) *problem {
	for _, h := range e.Holders {
		if h.Ref == n.Ref {
			continue
		}
		if both := intersect(n.Ports, h.Ports); len(both) > 0 {
			whose := "another tenant"
			if h.Namespace == n.Namespace {
				whose = "LoadBalancer " + h.Name
			}
			return problemf(clusterv1.ReasonPortInUse, "Port %s of %s is held by %s: use another port, or another address.", both[0], e.Address, whose)
		}
	}
	u := l.usage[n.Namespace]
	if u == nil {
		u = &Usage{}
	}
	if q := n.Owner.Quota.Ports; q != Unbounded && more > 0 && u.Ports+more > q {
		return quotaProblem("ports", u.Ports, q, 0, more)
	}
	return nil
}

// tryReturn gives a Releasing entry back to its own holder.
func (l *Ledger) tryReturn(n Needs, e Entry) (Decision, bool) {
	pool := l.pools[e.Pool]
	if len(e.Holders) != 1 || e.ProxyPool != n.ProxyPool || pool == nil || !slices.Contains(n.Pools, e.Pool) || pool.Unusable != "" || !pool.Admits(n.Owner) {
		return Decision{}, false
	}
	if len(n.Wanted) > 0 && !slices.Contains(n.Wanted, e.Address) || l.checkQuota(n, pool, 0) != nil {
		return Decision{}, false
	}
	e = e.With(n.Ref, n.Ports)
	e.Phase = Granted
	return Decision{Action: Change, Entry: e}, true
}

// decideNew gives the lowest free address of the first pool that has one.
func (l *Ledger) decideNew(n Needs) Decision {
	if len(n.Pools) == 0 {
		return Decision{Action: Wait, Reason: clusterv1.ReasonPoolNotFound, Message: "The class names no address pools: the hub's operator adds some to its addressPools."}
	}
	var best *problem
	for _, name := range n.Pools {
		pool := l.pools[name]
		p := problemf(clusterv1.ReasonPoolNotFound, "Address pool %s does not exist: the hub's operator creates it, or mends the class.", name)
		if pool != nil {
			p = l.checkPool(n, pool)
		}
		if p == nil {
			p = l.checkQuota(n, pool, 1)
		}
		if p == nil && pool.Restoring {
			p = problemf(clusterv1.ReasonPending, "Address pool %s grants nothing new while the hub is restored: wait, or name the address that you had.", name)
		}
		if p == nil {
			if a, ok := pool.v4.choose(l.isHeld); ok {
				return l.create(n, pool, a)
			}
			p = exhausted(pool, l.CountsOf(name))
		}
		if best == nil || rank(p.reason) > rank(best.reason) {
			best = p
		}
	}
	if best.reason == clusterv1.ReasonPoolNotAllowed && n.Owner.Tenant == "" {
		best = problemf(clusterv1.ReasonNamespaceNotAdmitted, "Namespace %s belongs to no Tenant and no address pool of the class (%s) names it: the hub's operator sets use.namespaceSelector on a pool.", n.Namespace, list(n.Pools))
	}
	return Decision{Action: Wait, Reason: best.reason, Message: best.message}
}

func exhausted(pool *poolState, c Counts) *problem {
	if pool.v4.size == 0 && pool.v6.size > 0 {
		return problemf(clusterv1.ReasonNotSupported, "Address pool %s has IPv6 addresses only, which are not granted yet: use a pool with IPv4 addresses.", pool.Name)
	}
	if c.Releasing > 0 {
		return problemf(clusterv1.ReasonPoolExhausted, "Address pool %s has no free address (%d are being released): delete a LoadBalancer, or ask the hub's operator to extend the pool. An address is granted as soon as one is free.", pool.Name, c.Releasing)
	}
	return problemf(clusterv1.ReasonPoolExhausted, "Address pool %s has no free address: delete a LoadBalancer, or ask the hub's operator to extend the pool. An address is granted as soon as one is free.", pool.Name)
}

// rank says which of several pools' reasons helps most: the one that is nearest to a grant.
func rank(reason string) int {
	return slices.Index([]string{
		clusterv1.ReasonPoolNotFound, clusterv1.ReasonNotSupported, clusterv1.ReasonPoolNotAllowed,
		clusterv1.ReasonQuotaExceeded, clusterv1.ReasonPending, clusterv1.ReasonPoolExhausted,
	}, reason)
}

func (l *Ledger) isHeld(a netip.Addr) bool {
	_, ok := l.byAddress[a]
	return ok
}

func (l *Ledger) create(n Needs, pool *poolState, a netip.Addr) Decision {
	return Decision{Action: Create, Entry: Entry{
		Name: AddressName(a), Address: a, Pool: pool.Name, ProxyPool: n.ProxyPool, Phase: Granted, Holders: []Holder{{n.Ref, n.Ports}},
	}}
}

// checkPool says why n may not use the pool at all.
func (l *Ledger) checkPool(n Needs, pool *poolState) *problem {
	switch {
	case pool.Unusable != "":
		return problemf(clusterv1.ReasonNotSupported, "Address pool %s can't be used: %s", pool.Name, pool.Unusable)
	case !pool.Admits(n.Owner):
		return problemf(clusterv1.ReasonPoolNotAllowed, "Address pool %s does not admit namespace %s: the hub's operator mends its spec.use.", pool.Name, n.Namespace)
	}
	return nil
}

// checkQuota says which bound n would break with that many addresses more.
func (l *Ledger) checkQuota(n Needs, pool *poolState, addresses int) *problem {
	u := l.usage[n.Namespace]
	if u == nil {
		u = &Usage{}
	}
	q := n.Owner.Quota
	newLoadBalancer, morePorts := 1, len(n.Ports)
	for name := range l.byHolder[n.Ref] {
		if e := l.entries[name]; e.Phase == Granted {
			// It moves: what it held goes right after.
			holder, _ := e.Holder(n.Ref)
			newLoadBalancer, morePorts = 0, morePorts-len(holder.Ports)
		}
	}
	switch {
	case newLoadBalancer > 0 && q.LoadBalancers != Unbounded && u.LoadBalancers+1 > q.LoadBalancers:
		return quotaProblem("loadBalancers", u.LoadBalancers, q.LoadBalancers, 0, 1)
	case morePorts > 0 && q.Ports != Unbounded && u.Ports+morePorts > q.Ports:
		return quotaProblem("ports", u.Ports, q.Ports, 0, morePorts)
	case addresses > 0 && q.Addresses != Unbounded && u.Addresses+addresses > q.Addresses:
		return quotaProblem("addresses", u.Addresses, q.Addresses, u.Releasing, addresses)
	case addresses > 0 && pool.PerTenant != Unbounded && u.PerPool[pool.Name]+addresses > pool.PerTenant:
		return problemf(clusterv1.ReasonQuotaExceeded, "The namespace holds %d addresses of pool %s%s, and may hold %d: delete a LoadBalancer, or ask the hub's operator for a larger perTenant on the pool.",
			u.PerPool[pool.Name], pool.Name, beingReleased(u.Releasing), pool.PerTenant)
	}
	return nil
}

func quotaProblem(what string, have, bound, releasing, more int) *problem {
	return problemf(clusterv1.ReasonQuotaExceeded, "The Tenant has %d %s%s, needs %d more and may have %d: delete a LoadBalancer, or ask the hub's operator for a larger spec.quota.%s.",
		have, strings.ToLower(what), beingReleased(releasing), more, bound, what)
}

func beingReleased(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of them being released)", n)
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
