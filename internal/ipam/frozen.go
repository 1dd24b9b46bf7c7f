package ipam

import (
	"slices"
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

// PoolOf names the pool that may grant it: the one whose own ranges hold the address or, of those that have the hosts'
// addresses, the first by name that has the port, else the first.
func (l *Ledger) PoolOf(w What) (string, bool) {
	if w.Hosts == "" {
		p, _, _ := l.poolAt(w.Address)
		if p == nil {
			return "", false
		}
		return p.Name, true
	}
	var with, any []string
	for name, p := range l.pools {
		if p.Hosts != w.Hosts {
			continue
		}
		if any = append(any, name); p.HostPorts.Contains(w.Port.Number) {
			with = append(with, name)
		}
	}
	if len(with) > 0 {
		return slices.Min(with), true
	}
	if len(any) > 0 {
		return slices.Min(any), true
	}
	return "", false
}

// IgnoresSilent says whether a pool takes what silent proxies serve for not served.
func (l *Ledger) IgnoresSilent(pool string) bool {
	p := l.pools[pool]
	return p != nil && p.IgnoreSilent
}

// Claim is what a proxy says that it serves against the ledger, since the hub changed.
type Claim struct {
	Proxy, ProxyPool string
	What             What
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
