package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// annotationAdopted on an Address names the proxies by whose word the ledger says what it says, separated by commas.
const annotationAdopted = "fairlead.dev/adopted-from"

// Adopt takes in what frozen proxies serve of one address, or port that is granted by itself, against the ledger, all of their
// claims. What is returned is written, or says why nothing is.
func (k *Keeper) Adopt(ctx context.Context, what ipam.What, claims []ipam.Claim, proxies []*proof.Proxy) (ipam.Adopted, error) {
	name := what.Name()
	for range attempts {
		k.mu.Lock()
		d := k.ledger.Adopt(what, claims, k.adopters(name, claims, proxies))
		k.disagree(name, d)
		if d.Action == ipam.Keep {
			_, open := k.unwritten[name]
			k.unlock()
			if !open {
				return d, nil
			}
		} else {
			k.put(d.Entry)
			k.owe(name, d.Entry.Holders[0].Ref)
			k.adopted[name] = claims
			for _, h := range d.Entry.Holders {
				k.woken = append(k.woken, h.Ref)
			}
			k.unlock()
		}
		if _, err := k.write(ctx, name); err != nil {
			return ipam.Adopted{}, err
		}
	}
	return ipam.Adopted{}, fmt.Errorf("adopting address %s: %w", name, errBusy)
}

// adopters are who else speaks of an address; k.mu is held.
func (k *Keeper) adopters(name string, claims []ipam.Claim, proxies []*proof.Proxy) ipam.Adopters {
	var out ipam.Adopters
	r := k.objects[name]
	if r == nil {
		return out
	}
	earlier := strings.Split(r.object.Annotations[annotationAdopted], ",")
	byName := map[string]*proof.Proxy{}
	var thawed []int64 // the epochs in which those did who follow the ledger
	for _, p := range proxies {
		byName[p.Name] = p
		if p.Out || slices.ContainsFunc(claims, func(c ipam.Claim) bool { return c.Proxy == p.Name }) {
			continue
		}
		if slices.Contains(earlier, p.Name) {
			out.Earlier = append(out.Earlier, p.Name)
		}
		switch {
		case p.Frozen() || p.Pool != r.object.Spec.ProxyPool:
		case p.Live && p.Reported && p.Settled && p.Through.Addresses >= r.version:
			out.Against = append(out.Against, p.Name)
			thawed = append(thawed, p.Thawed)
		case p.Boot != "" && (p.Live || !k.ledger.IgnoresSilent(r.object.Spec.Pool)):
			out.Behind = append(out.Behind, p.Name) // it is restarted, silent, or yet to apply the latest
		}
	}
	claimants := map[string]struct{}{}
	for _, c := range claims {
		claimants[c.Proxy] = struct{}{}
	}
	// Who is new to the hub knows no better than its ledger, whatever epoch he adopted. Those know better who saw the hub change
	// and brought its ledger to what they served, if that was in an epoch that the claimant hasn't adopted, or in a hub that it
	// comes to from another; and if they are more than the claimants.
	out.Overruled = func(proxy string) bool {
		p := byName[proxy]
		if p == nil {
			return false
		}
		better := 0
		for _, epoch := range thawed {
			if epoch > p.Epoch || epoch > 0 && p.HubChanged == v1alpha1.ReasonHubReplaced {
				better++
			}
		}
		return better > len(claimants)
	}
	return out
}

// noteAdopted names on an Address that is about to be written by whose word it is.
func noteAdopted(a *v1alpha1.Address, claims []ipam.Claim) {
	names := map[string]struct{}{}
	for _, c := range claims {
		names[c.Proxy] = struct{}{}
	}
	if a.Annotations == nil {
		a.Annotations = map[string]string{}
	}
	a.Annotations[annotationAdopted] = strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// disagree notes that proxies contradict each other about an address, or don't any more; k.mu is held.
func (k *Keeper) disagree(name string, d ipam.Adopted) {
	before := k.disputes[name]
	if slices.Equal(before.Proxies, d.Disagree) {
		return
	}
	if pool, ok := k.poolOf(name); ok {
		k.changed[pool] = struct{}{}
	}
	if len(d.Disagree) == 0 {
		delete(k.disputes, name)
		return
	}
	k.disputes[name] = Dispute{name, d.Disagree}
}

// poolOf names the pool that may grant what has the name.
func (k *Keeper) poolOf(name string) (string, bool) {
	w, err := ipam.ParseName(name)
	if err != nil {
		return "", false
	}
	return k.ledger.PoolOf(w)
}

// Dispute is an Address, by its name, that proxies serve for different LoadBalancers.
type Dispute struct {
	Address string
	Proxies []string
}

// Undisputed forgets the disputes about addresses that are not among those claimed.
func (k *Keeper) Undisputed(claimed map[ipam.What][]ipam.Claim) {
	k.mu.Lock()
	for name := range k.disputes {
		if w, err := ipam.ParseName(name); err != nil || len(claimed[w]) == 0 {
			k.disagree(name, ipam.Adopted{})
		}
	}
	k.unlock()
}

// Disputed says whether there is a dispute.
func (k *Keeper) Disputed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.disputes) > 0
}

// Disputes returns those about addresses of an AddressPool, sorted.
func (k *Keeper) Disputes(pool string) []Dispute {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []Dispute
	for _, name := range slices.Sorted(maps.Keys(k.disputes)) {
		if p, ok := k.poolOf(name); ok && p == pool {
			out = append(out, k.disputes[name])
		}
	}
	return out
}
