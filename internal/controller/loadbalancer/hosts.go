package loadbalancer

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/ipam"
	"fairlead.dev/fairlead/internal/proof"
)

// hosts remembers, by proxy, what the addresses of hosts that are shown depend on.
type hosts struct {
	mu   sync.Mutex
	said map[string]host
}

type host struct {
	pool      string
	addresses []netip.Addr
	out       bool
	// serves: it was live and had said all that it serves, and has not been silent or restarted since.
	serves bool
}

func (h host) equal(o host) bool {
	return h.pool == o.pool && h.out == o.out && h.serves == o.serves && slices.Equal(h.addresses, o.addresses)
}

// lookAtHosts gives the ledger the own addresses of all proxies' hosts, and wakes the LoadBalancers that are served there
// where a proxy came or went, or has begun to serve.
func (r *Reconciler) lookAtHosts() {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	next, differ := map[string]host{}, map[string]struct{}{}
	for _, p := range r.Fleet.All() {
		if len(p.Addresses) == 0 {
			continue
		}
		before := r.hosts.said[p.Name]
		now := host{p.Pool, p.Addresses, p.Out, p.Live && p.Reported && (before.serves || p.Renewed && p.Settled)}
		if next[p.Name] = now; !now.equal(before) {
			differ[p.Pool] = struct{}{}
		}
	}
	for name, h := range r.hosts.said {
		if _, still := next[name]; !still {
			differ[h.pool] = struct{}{}
		}
	}
	if len(differ) == 0 {
		return
	}
	r.hosts.said = next
	own := map[string][]netip.Addr{}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if h := next[name]; !h.out {
			own[h.pool] = append(own[h.pool], h.addresses...)
		}
	}
	r.Keeper.SetHosts(own)
	for pool := range differ {
		for _, ref := range r.Keeper.OnHosts(pool) {
			r.Wake(ref)
		}
	}
}

// hostAddresses are those of the proxies' hosts on which a LoadBalancer is served: shown as soon as the proxy there serves it,
// and as long as the Proxy stays as it is. So one that joins, or falls silent, takes nothing away.
func hostAddresses(l *clusterv1.LoadBalancer, held []ipam.Entry, programmed proof.Programmed, proxies []*proof.Proxy) []clusterv1.LoadBalancerAddress {
	var out []clusterv1.LoadBalancerAddress
	for _, e := range held {
		if !e.OfHosts() {
			continue
		}
		for _, p := range proxies {
			for _, a := range p.Addresses {
				next := statusAddress(a, e.Pool)
				serves := slices.Contains(programmed.Serving, p.Name) || slices.Contains(l.Status.Addresses, next)
				if !p.Out && serves && ipam.FamilyOf(e.Address).Has(a) && !slices.Contains(out, next) {
					out = append(out, next)
				}
			}
		}
	}
	// In the families' order as granted; within one, by address, so that all see the same.
	slices.SortStableFunc(out, func(a, b clusterv1.LoadBalancerAddress) int {
		if a.Family != b.Family {
			return 0
		}
		return strings.Compare(a.Value, b.Value)
	})
	return out
}

func statusAddress(a netip.Addr, pool string) clusterv1.LoadBalancerAddress {
	return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a.String(), Family: clusterv1.IPFamily(ipam.FamilyOf(a)), Pool: pool}
}
