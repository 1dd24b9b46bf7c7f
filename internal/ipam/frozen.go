package ipam

import (
	"net/netip"
)

// Frozen is why a pool gives nothing that isn't in the ledger: what is served may not all be there.
type Frozen struct{ Reason, Message string }

// SetFrozen replaces the pools that are frozen. From them nobody gets an address or a port that the ledger doesn't give
// it already, and nobody loses one.
func (l *Ledger) SetFrozen(pools map[string]Frozen) { l.frozen = pools }

// PoolsServedBy returns the pools of which proxies of a pool of proxies serve addresses.
func (l *Ledger) PoolsServedBy(proxyPool string) []string {
	var out []string
	for name, p := range l.pools {
		if p.servedBy[proxyPool] > 0 {
			out = append(out, name)
		}
	}
	return out
}

// Restoring returns the pools that are being restored.
func (l *Ledger) Restoring() []string {
	var out []string
	for name, p := range l.pools {
		if p.Restoring {
			out = append(out, name)
		}
	}
	return out
}

// PoolOf names the pool whose own ranges hold the address.
func (l *Ledger) PoolOf(a netip.Addr) (string, bool) {
	p, _, _ := l.poolAt(a)
	if p == nil {
		return "", false
	}
	return p.Name, true
}

// IgnoresSilent says whether a pool takes what silent proxies serve for not served.
func (l *Ledger) IgnoresSilent(pool string) bool {
	p := l.pools[pool]
	return p != nil && p.IgnoreSilent
}

// Claim is what a proxy says that it serves against the ledger, since the hub changed.
type Claim struct {
	Proxy, ProxyPool string
	Address          netip.Addr
	Holder           Holder
}

// checkFrozen says why the pool gives nothing new now; nil: it does.
func (l *Ledger) checkFrozen(pool string) *problem {
	if f, frozen := l.frozen[pool]; frozen {
		return &problem{f.Reason, f.Message}
	}
	return nil
}

// given is the surplus that may be given up: of a pool that is frozen or being restored, nothing is. What runs may be just that.
func (c *chooser) given(surplus []Entry) []Entry {
	for _, e := range c.allGranted {
		if p := c.pools[e.Pool]; c.checkFrozen(e.Pool) != nil || p != nil && p.Restoring {
			return nil
		}
	}
	return surplus
}
