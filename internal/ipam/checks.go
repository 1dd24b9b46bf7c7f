package ipam

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// checkPool says why the pool may not be used at all.
func (c *chooser) checkPool(pool *poolState) *problem {
	switch {
	case pool.Unusable != "":
		return problemf(clusterv1.ReasonNotSupported, "Address pool %s can't be used: %s", pool.Name, pool.Unusable)
	case pool.Hosts != "" && pool.Hosts != c.ProxyPool:
		return problemf(clusterv1.ReasonNotSupported, "Address pool %s has the hosts' addresses of proxy pool %s, and the class's proxies are of pool %s: the hub's operator takes it off the class's addressPools.", pool.Name, pool.Hosts, c.ProxyPool)
	case !pool.Admits(c.Owner):
		return problemf(clusterv1.ReasonPoolNotAllowed, "Address pool %s does not admit namespace %s: the hub's operator mends its spec.use.", pool.Name, c.Namespace)
	}
	return nil
}

// checkFresh says why the pool gives nothing new, whether or not it has a free address.
func (c *chooser) checkFresh(pool *poolState) *problem {
	if p := c.checkPool(pool); p != nil {
		return p
	}
	if p := c.checkFamily(pool); p != nil {
		return p
	}
	if p := c.checkQuota(pool, more{1, 1}); p != nil {
		return p
	}
	if p := c.checkFrozen(pool.Name); p != nil {
		return p
	}
	return checkRestoring(pool)
}

func (c *chooser) checkFamily(pool *poolState) *problem {
	switch {
	case c.family == AnyFamily:
	case pool.Hosts != "" && !c.hostsHave(pool.Hosts, c.family):
		return problemf(clusterv1.ReasonFamilyNotInPool, "The hosts of address pool %s have no %s addresses: %s", pool.Name, c.family, familyFix(c.family))
	case pool.Hosts == "" && pool.sizeOf(c.family) == 0:
		return problemf(clusterv1.ReasonFamilyNotInPool, "Address pool %s has no %s addresses: %s", pool.Name, c.family, familyFix(c.family))
	}
	return nil
}

func checkRestoring(pool *poolState) *problem {
	if !pool.Restoring {
		return nil
	}
	return problemf(clusterv1.ReasonPending, "Address pool %s grants nothing new while the hub is restored: wait, or name the address that you had.", pool.Name)
}

func familyFix(f Family) string {
	return fmt.Sprintf("leave %s out, or ask the hub's operator for a pool with a range of it.", f)
}

// tryJoin shares e, which others hold.
func (c *chooser) tryJoin(pool *poolState, e Entry) ([]Step, *problem) {
	foreign := slices.ContainsFunc(e.Holders, func(h Holder) bool { return h.Namespace != c.Namespace })
	whose := "another tenant"
	if !foreign {
		whose = "another LoadBalancer of this namespace"
	}
	switch {
	case e.Phase == Moved:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s moved to another hub with its holder: want another, or have the hub's operator delete the Address %s once no other hub serves it.", e.Address, e.Name)
	case e.Phase != Granted:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is still being released by %s: it is granted as soon as every proxy has stopped serving it.", e.Address, whose)
	case e.Pool != pool.Name:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s was granted from pool %s before its range moved to pool %s, and nobody joins its holder: want another, or wait until it is released.", e.Address, e.Pool, pool.Name)
	case len(e.Holders) >= MaxHolders:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is shared by %d LoadBalancers already, which is the limit: want another.", e.Address, len(e.Holders))
	case e.ProxyPool != c.ProxyPool:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is served by other proxies than those of the class: want another, or choose the other class.", e.Address)
	case pool.Share == ShareNone || pool.Share != ShareAny && foreign:
		return nil, problemf(clusterv1.ReasonAddressInUse, "The wanted address %s is held by %s, and pool %s does not share it: want another, or none.", e.Address, whose, pool.Name)
	}
	if p := c.checkPorts(e, c.Ports, 0); p != nil {
		return nil, p
	}
	m := more{1, 1}
	if slices.ContainsFunc(e.Holders, func(h Holder) bool { return h.Namespace == c.Namespace }) {
		m = more{}
	}
	if p := c.checkQuota(pool, m); p != nil {
		return nil, p
	}
	if p := c.checkSettled(pool, e); p != nil {
		return nil, p
	}
	if p := c.checkFrozen(pool.Name); p != nil {
		return nil, p
	}
	c.claim(pool.Name, m)
	return []Step{{Change, e.With(c.Ref, c.Ports)}}, nil
}

// checkSettled says why it gets no port of e that it doesn't have yet: where tenants share addresses, proxies
// may serve one still for another who gave it up, and whom e names no more.
func (c *chooser) checkSettled(pool *poolState, e Entry) *problem {
	if pool == nil || pool.Share != ShareAny || c.settled == nil || c.settled(e) {
		return nil
	}
	return problemf(clusterv1.ReasonPending, "The address %s is shared, and proxies have yet to apply what others changed on it.", e.Address)
}

// checkPorts says why it can't have the ports on e: others hold one, or its quota has no room for that many more.
func (c *chooser) checkPorts(e Entry, ports []Port, more int) *problem {
	for _, h := range e.Holders {
		if h.Ref == c.Ref {
			continue
		}
		if both := intersect(ports, h.Ports); len(both) > 0 {
			whose := "another tenant"
			if h.Namespace == c.Namespace {
				whose = "LoadBalancer " + h.Name
			}
			return problemf(clusterv1.ReasonPortInUse, "Port %s of %s is held by %s: use another port, or another address.", both[0], e.Address, whose)
		}
	}
	u := c.usageOf(c.Namespace)
	if q := c.Owner.Quota.Ports; q != Unbounded && more > 0 && u.Ports+u.moved.ports+more > q {
		return quotaProblem("ports", u.Ports, q, 0, u.moved.ports, more)
	}
	return nil
}

// more is what is to be taken beyond what is held: addresses, and grants of a pool, which are those or single ports.
type more struct{ addresses, grants int }

// checkQuota says which bound that much more would break, beside what is claimed.
func (c *chooser) checkQuota(pool *poolState, m more) *problem {
	u, q := c.usageOf(c.Namespace), c.Owner.Quota
	newLoadBalancer := 1
	if len(c.allGranted) > 0 {
		newLoadBalancer = 0 // what it holds elsewhere stays, or goes right after
	}
	morePorts := len(c.Ports) - c.portsHeld
	addresses := m.addresses
	if addresses > 0 {
		addresses += c.claimed
	}
	switch {
	case newLoadBalancer > 0 && q.LoadBalancers != Unbounded && u.LoadBalancers+u.moved.entries+1 > q.LoadBalancers:
		return quotaProblem("loadBalancers", u.LoadBalancers, q.LoadBalancers, 0, u.moved.entries, 1)
	case morePorts > 0 && q.Ports != Unbounded && u.Ports+u.moved.ports+morePorts > q.Ports:
		return quotaProblem("ports", u.Ports, q.Ports, 0, u.moved.ports, morePorts)
	case addresses > 0 && q.Addresses != Unbounded && u.Addresses+u.moved.addresses+addresses > q.Addresses:
		return quotaProblem("addresses", u.Addresses, q.Addresses, u.Releasing, u.moved.addresses, addresses)
	}
	return c.checkPerTenant(pool, m.grants)
}

// checkPerTenant leaves out the ports that go for those that come: they count again while they are being released.
func (c *chooser) checkPerTenant(pool *poolState, grants int) *problem {
	u, what, releasing := c.usageOf(c.Namespace), "addresses", 0
	held, moved := u.PerPool[pool.Name], u.moved.perPool[pool.Name]
	if pool.ByPort {
		what = "ports"
	} else {
		releasing = u.Releasing
	}
	if grants > 0 && pool.PerTenant != Unbounded && held+moved+c.claimedOf[pool.Name]+grants-c.leaving[pool.Name] > pool.PerTenant {
		return problemf(clusterv1.ReasonQuotaExceeded, "The namespace holds %d %s of pool %s%s, and may hold %d: delete a LoadBalancer, or ask the hub's operator for a larger perTenant on the pool%s.",
			held+moved, what, pool.Name, leftBehind(releasing, moved), pool.PerTenant, movedFix(moved))
	}
	return nil
}

// quotaProblem is that have, moved ones and more together are beyond the bound.
func quotaProblem(what string, have, bound, releasing, moved, more int) *problem {
	return problemf(clusterv1.ReasonQuotaExceeded, "The Tenant has %d %s%s, needs %d more and may have %d: delete a LoadBalancer, or ask the hub's operator for a larger spec.quota.%s%s.",
		have+moved, strings.ToLower(what), leftBehind(releasing, moved), more, bound, what, movedFix(moved))
}

// leftBehind says how many of those that count are in nobody's use.
func leftBehind(releasing, moved int) string {
	switch {
	case releasing > 0 && moved > 0:
		return fmt.Sprintf(" (%d of them being released, %d moved to another hub)", releasing, moved)
	case releasing > 0:
		return fmt.Sprintf(" (%d of them being released)", releasing)
	case moved > 0:
		return fmt.Sprintf(" (%d of them moved to another hub)", moved)
	}
	return ""
}

func movedFix(moved int) string {
	if moved == 0 {
		return ""
	}
	return ", or to delete the Addresses that moved once no other hub serves them"
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
