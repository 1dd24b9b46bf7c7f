package ledger

import (
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
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
	if t.None() {
		return nil
	}
	out := map[string]ipam.Frozen{}
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
		pools := append(k.PoolsOf(p.Pool), k.ledger.PoolsServedBy(p.Pool)...)
		for _, c := range Claims(p) {
			if pool, ok := k.ledger.PoolOf(c.Address); ok {
				pools = append(pools, pool)
			}
		}
		slices.Sort(pools)
		for _, pool := range slices.Compact(pools) {
			if p.Live || !k.ledger.IgnoresSilent(pool) {
				out[pool] = append(out[pool], p)
			}
		}
	}
	return out
}
