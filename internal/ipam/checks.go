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
	if q := c.Owner.Quota.Ports; q != Unbounded && more > 0 && u.Ports+more > q {
		return quotaProblem("ports", u.Ports, q, 0, more)
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
	case newLoadBalancer > 0 && q.LoadBalancers != Unbounded && u.LoadBalancers+1 > q.LoadBalancers:
		return quotaProblem("loadBalancers", u.LoadBalancers, q.LoadBalancers, 0, 1)
	case morePorts > 0 && q.Ports != Unbounded && u.Ports+morePorts > q.Ports:
		return quotaProblem("ports", u.Ports, q.Ports, 0, morePorts)
	case addresses > 0 && q.Addresses != Unbounded && u.Addresses+addresses > q.Addresses:
		return quotaProblem("addresses", u.Addresses, q.Addresses, u.Releasing, addresses)
	}
	return c.checkPerTenant(pool, m.grants)
}

func (c *chooser) checkPerTenant(pool *poolState, grants int) *problem {
	u, what, releasing := c.usageOf(c.Namespace), "addresses", ""
	if pool.ByPort {
		what = "ports"
	} else {
		releasing = beingReleased(u.Releasing)
	}
	if grants > 0 && pool.PerTenant != Unbounded && u.PerPool[pool.Name]+c.claimedOf[pool.Name]+grants > pool.PerTenant {
		return problemf(clusterv1.ReasonQuotaExceeded, "The namespace holds %d %s of pool %s%s, and may hold %d: delete a LoadBalancer, or ask the hub's operator for a larger perTenant on the pool.",
			u.PerPool[pool.Name], what, pool.Name, releasing, pool.PerTenant)
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
