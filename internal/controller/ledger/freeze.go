package ledger

import (
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// Frozen says why an AddressPool grants nothing new and frees nothing now; false: it does.
func (k *Keeper) Frozen(pool string) (ipam.Frozen, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, ok := k.frozen()[pool]
	return f, ok
}

// FrozenBy returns the proxies that freeze an AddressPool.
func (k *Keeper) FrozenBy(pool string) []*proof.Proxy {
	if k.Trouble == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.concerned(k.Trouble().Frozen)[pool]
}

// PoolsServedBy names the AddressPools of which a pool of proxies serves addresses, as the ledger says.
func (k *Keeper) PoolsServedBy(proxyPool string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ledger.PoolsServedBy(proxyPool)
}

// freeze tells the ledger what is frozen now; k.mu is held.
func (k *Keeper) freeze() {
	f := k.frozen()
	k.unsettled = k.unsettled || len(f) > 0
	k.ledger.SetFrozen(f)
}

func (k *Keeper) frozen() map[string]ipam.Frozen {
	if k.Trouble == nil {
		return nil
	}
	t := k.Trouble()
	k.claimed.keep(t)
	if t.None() && !t.Mute {
		return nil
	}
	out := map[string]ipam.Frozen{}
	if t.Mute {
		for _, pool := range k.ledger.Restoring() {
			out[pool] = ipam.Frozen{Reason: clusterv1.ReasonPending, Message: proof.MuteWait}
		}
	}
	for pool := range k.concerned(t.Unseen) {
		out[pool] = ipam.Frozen{Reason: clusterv1.ReasonPending, Message: proof.UnseenWait}
	}
	for pool := range k.concerned(t.Frozen) {
		out[pool] = ipam.Frozen{Reason: clusterv1.ReasonHubChanged, Message: proof.FrozenWait}
	}
	return out
}

// concerned returns the proxies by the pools that they freeze: those that serve addresses of it by a class, by the
// ledger, or by what they say.
func (k *Keeper) concerned(proxies []*proof.Proxy) map[string][]*proof.Proxy {
	out := map[string][]*proof.Proxy{}
	for _, p := range proxies {
		pools := slices.Concat(k.PoolsOf(p.Pool), k.ledger.PoolsServedBy(p.Pool), k.claimed.pools(p, k.ledger.PoolOf))
		slices.Sort(pools)
		for _, pool := range slices.Compact(pools) {
			if p.Live || !k.ledger.IgnoresSilent(pool) {
				out[pool] = append(out[pool], p)
			}
		}
	}
	return out
}

// claimed remembers, by the names of proxies, in which AddressPools lie the addresses that they claim. Each grant asks for
// that while a pool is frozen, and reading all their reports for it would cost as much as they hold. Views and reports are
// never changed, so each is read once. What it says is void once the pools' ranges are others.
type claimed map[string]*claimant

type claimant struct {
	view    *proof.Proxy
	reports map[*v1alpha1.ProxyReport][]string
	pools   []string
}

// pools are those of a proxy's claims, sorted; poolOf names that of what is held.
func (c claimed) pools(p *proof.Proxy, poolOf func(ipam.What) (string, bool)) []string {
	old := c[p.Name]
	if old != nil && old.view == p {
		return old.pools
	}
	next := &claimant{view: p, reports: make(map[*v1alpha1.ProxyReport][]string, len(p.Reports))}
	for namespace, r := range p.Reports {
		var in []string
		known := false
		if old != nil {
			in, known = old.reports[r]
		}
		if !known {
			for _, claim := range claimsIn(p, namespace, r) {
				if pool, ok := poolOf(claim.What); ok {
					in = append(in, pool)
				}
			}
			slices.Sort(in)
			in = slices.Compact(in)
		}
		next.reports[r] = in
		next.pools = append(next.pools, in...)
	}
	slices.Sort(next.pools)
	next.pools = slices.Compact(next.pools)
	c[p.Name] = next
	return next.pools
}

// keep forgets those who are in no trouble.
func (c claimed) keep(t *proof.Trouble) {
	maps.DeleteFunc(c, func(name string, _ *claimant) bool {
		is := func(p *proof.Proxy) bool { return p.Name == name }
		return !slices.ContainsFunc(t.Frozen, is) && !slices.ContainsFunc(t.Unseen, is)
	})
}
