package loadbalancer

import (
	"cmp"
	"fmt"
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
	out, live bool
	// serves: it was live and had said all that it serves, and has not been silent or restarted since.
	serves bool
}

func (h host) equal(o host) bool {
	return h.pool == o.pool && h.out == o.out && h.live == o.live && h.serves == o.serves && slices.Equal(h.addresses, o.addresses)
}

// lookAtHosts gives the ledger the own addresses of all proxies' hosts, and wakes the LoadBalancers that are served there
// where a proxy came, went or fell silent, or has begun to serve.
func (r *Reconciler) lookAtHosts() {
	r.hosts.mu.Lock()
	defer r.hosts.mu.Unlock()
	next, differ := map[string]host{}, map[string]struct{}{}
	for _, p := range r.Fleet.All() {
		if len(p.Addresses) == 0 {
			continue
		}
		before := r.hosts.said[p.Name]
		now := host{p.Pool, p.Addresses, p.Out, p.Live, p.Live && p.Reported && (before.serves || p.Renewed && p.Settled)}
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
	own, away := map[string][]netip.Addr{}, map[string][]netip.Addr{}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		h, to := next[name], own
		if h.out {
			to = away
		}
		to[h.pool] = append(to[h.pool], h.addresses...)
	}
	r.Keeper.SetHosts(own, away)
	for pool := range differ {
		for _, ref := range r.Keeper.OnHosts(pool) {
			r.Wake(ref)
		}
	}
}

// hostAddresses are those of the proxies' hosts on which a LoadBalancer, whose present content is need, is served: shown as soon as
// the proxy there serves it no worse than others do, and as long as the Proxy stays as it is. So one that joins, or falls silent, takes
// nothing away. awaited: a live proxy whose host isn't shown has yet to say whether it serves it.
func hostAddresses(l *clusterv1.LoadBalancer, held []ipam.Entry, need proof.Vector, proxies []*proof.Proxy) (out []clusterv1.LoadBalancerAddress, awaited bool) {
	words := map[ipam.Family]*words{}
	for _, e := range held {
		if !e.OfHosts() {
			continue
		}
		family := ipam.FamilyOf(e.Address)
		if words[family] == nil {
			words[family] = hear(l, held, family, need, proxies)
		}
		for _, p := range proxies {
			for _, a := range p.Addresses {
				switch next := statusAddress(a, e.Pool); {
				case p.Out || !family.Has(a) || slices.Contains(out, next):
				case slices.Contains(l.Status.Addresses, next) || words[family].good(p.Name):
					out = append(out, next)
				case p.Live && !words[family].known(p.Name):
					awaited = true
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
	return out, awaited
}

// words are what the proxies say whose hosts have an address of a family.
type words struct {
	// serves are the ports of hosts, of those that the LoadBalancer holds, which a proxy is known to serve; by its name.
	serves map[string][]ipam.Port
	// enough is how many of them make a host a good one.
	enough int
}

// hear asks the proxies what they serve. Clients may be sent to a host that serves a port, and refuses none that is served
// elsewhere; where each host refuses one that another serves, none is better.
func hear(l *clusterv1.LoadBalancer, held []ipam.Entry, family ipam.Family, need proof.Vector, proxies []*proof.Proxy) *words {
	var ports []ipam.Port
	for _, e := range held {
		if e.OfHosts() && family.Has(e.Address) {
			ports = append(ports, e.Port)
		}
	}
	w, somewhere, kept := &words{serves: map[string][]ipam.Port{}, enough: 1}, map[ipam.Port]bool{}, false
	for _, p := range proxies {
		if p.Out || !slices.ContainsFunc(p.Addresses, family.Has) {
			continue
		}
		refused, known := p.Refuses(l.Namespace, l.Name, need)
		served := slices.DeleteFunc(slices.Clone(ports), func(port ipam.Port) bool { return refuses(refused, port) })
		switch {
		case known:
			w.serves[p.Name] = served
		case p.Live && showsOne(l, p.Addresses):
			kept = true // it can't say now what it serves: as before, all
		default:
			continue
		}
		for _, port := range served {
			somewhere[port] = true
		}
	}
	for _, served := range w.serves {
		if kept || len(served) == len(somewhere) {
			w.enough = max(len(somewhere), 1)
		}
	}
	return w
}

// refuses says that one of the problems is of the port.
func refuses(problems []proof.Problem, port ipam.Port) bool {
	return slices.ContainsFunc(problems, func(x proof.Problem) bool {
		return x.Port == 0 || x.Port == port.Number && x.Protocol == port.Protocol
	})
}

// showsOne says that a LoadBalancer shows one of the addresses.
func showsOne(l *clusterv1.LoadBalancer, addresses []netip.Addr) bool {
	return slices.ContainsFunc(l.Status.Addresses, func(a clusterv1.LoadBalancerAddress) bool {
		return slices.ContainsFunc(addresses, func(own netip.Addr) bool { return own.String() == a.Value })
	})
}

func (w *words) known(proxy string) bool {
	_, known := w.serves[proxy]
	return known
}

// good says that clients may be sent to a proxy's host.
func (w *words) good(proxy string) bool { return len(w.serves[proxy]) >= w.enough }

// keep judges what was Programmed once and stays so; false: no host has an address any more
// on which it could be served, or of a family that it requires.
func (r *Reconciler) keep(l *clusterv1.LoadBalancer, f *facts) bool {
	ref := ipam.Ref{Namespace: l.Namespace, Name: l.Name}
	need := proof.Vector{LoadBalancers: r.Versions.Of(l), Addresses: f.grant.Version}
	onHosts := slices.ContainsFunc(f.grant.Held, func(e ipam.Entry) bool { return e.OfHosts() })
	if onHosts { // before the proxies are looked at, so that no change of theirs is missed
		need = r.joining.ask(ref, question{l.UID, l.Generation, strings.Join(f.grant.Addresses(), ","), f.pool, need, r.Now()}).need
	}
	proxies := r.Fleet.Pool(f.pool)
	hosts, awaited := hostAddresses(l, f.grant.Held, need, proxies)
	if awaited {
		r.joining.answered(ref, proof.JudgeProgrammed(ref.Namespace, ref.Name, need, proxies))
	} else {
		r.joining.forget(ref)
	}
	if f.hosts = hosts; f.homeless() != "" {
		return false
	}
	r.pending.forget(ref)
	f.kept, f.programmed = true, proof.JudgeProgrammed(ref.Namespace, ref.Name, proof.Vector{}, proxies)
	f.setAside(proof.Vector{}, proxies)
	return true
}

// setAside parts from what was judged what only proxies refuse whose hosts aren't shown, where nothing but ports of hosts is held: no
// client is sent there. Of those that are shown it notes whether one serves a port: what is refused on some hosts is served on others.
func (f *facts) setAside(need proof.Vector, proxies []*proof.Proxy) {
	shown := slices.DeleteFunc(slices.Clone(proxies), func(p *proof.Proxy) bool {
		return !slices.ContainsFunc(f.hosts, func(h clusterv1.LoadBalancerAddress) bool {
			return slices.ContainsFunc(p.Addresses, func(own netip.Addr) bool { return own.String() == h.Value })
		})
	})
	if len(shown) == 0 || slices.ContainsFunc(f.grant.Held, func(e ipam.Entry) bool { return !e.OfHosts() }) {
		return
	}
	all := f.programmed.Problems
	f.programmed.Problems = proof.JudgeProgrammed(f.lb.Namespace, f.lb.Name, need, shown).Problems
	f.aside = slices.DeleteFunc(slices.Clone(all), func(x proof.Problem) bool { return slices.Contains(f.programmed.Problems, x) })
	f.somewhere = slices.ContainsFunc(shown, func(p *proof.Proxy) bool {
		refused, known := p.Refuses(f.lb.Namespace, f.lb.Name, need)
		return known && slices.ContainsFunc(f.grant.Held, func(e ipam.Entry) bool {
			return slices.ContainsFunc(p.Addresses, ipam.FamilyOf(e.Address).Has) && !refuses(refused, e.Port)
		})
	})
}

// unasked drops what is asked of the proxies about a LoadBalancer.
func (r *Reconciler) unasked(ref ipam.Ref) {
	r.pending.forget(ref)
	r.joining.forget(ref)
}

// homeless is the family of which it holds ports of hosts, and no host has an address that it is served on, where it can't do
// without: it requires both, or has no other to be served on. Empty: none.
func (f *facts) homeless() ipam.Family {
	missed, served := f.missed()
	if _, required := families(f.lb); served && !required {
		return ""
	}
	return missed
}

// missed is the first family of which it holds ports of hosts, and no host has an address that it is served on; empty: none.
// served: it has an address of its own, or a host's.
func (f *facts) missed() (missed ipam.Family, served bool) {
	for _, e := range f.grant.Held {
		family := ipam.FamilyOf(e.Address)
		if !e.OfHosts() || slices.ContainsFunc(f.hosts, func(a clusterv1.LoadBalancerAddress) bool { return string(a.Family) == string(family) }) {
			served = true
		} else {
			missed = cmp.Or(missed, family)
		}
	}
	return missed, served
}

// missedText says what becomes of a family that is missed.
func (f *facts) missedText(family ipam.Family) string {
	return fmt.Sprintf("no proxy of pool %s serves it on an %s address of its host: the hub's operator starts one there with such an --address", f.pool, family)
}

func statusAddress(a netip.Addr, pool string) clusterv1.LoadBalancerAddress {
	return clusterv1.LoadBalancerAddress{Type: clusterv1.AddressTypeIP, Value: a.String(), Family: clusterv1.IPFamily(ipam.FamilyOf(a)), Pool: pool}
}
