package ipam

import (
	"slices"
)

// Adopters are who speaks of one address, beside those who claim it.
type Adopters struct {
	// Against serve the address as the ledger says, and know that the hub is the one that it was.
	Against []string
	// Overruled says of a claimant that those know better than it.
	Overruled func(proxy string) bool
	// Behind have served in this hub, and may serve the address as the ledger says: what they have applied isn't known now.
	Behind []string
	// Earlier are others whose claim made the ledger what it is, and who still count.
	Earlier []string
}

// Adopted is what becomes of an address that frozen proxies serve against the ledger.
type Adopted struct {
	// Step is Keep where nothing is to be written.
	Step
	// Stale proxies are wrong: others serve the address as the ledger says.
	Stale []string
	// Disagree are proxies of whom some are wrong, and nobody here knows which. Nothing is done.
	Disagree []string
	// NoPool says that no pool has the address: nothing is done before one has.
	NoPool bool
	// Full says that it has as many holders as an Address names: nothing is done before one has left.
	Full bool
}

// Adopt says how the ledger takes in what proxies serve since the hub changed: what runs wins, unless proxies
// contradict each other. claims are all those of one address, or of one port that is granted by itself. It changes nothing.
func (l *Ledger) Adopt(w What, claims []Claim, who Adopters) Adopted {
	e, held := l.Get(w.Name())
	keep := Adopted{Step: Step{Keep, e}}
	if len(claims) == 0 {
		return keep
	}
	if two := contradiction(claims); two != nil {
		keep.Disagree = two
		return keep
	}
	pool, ok := l.PoolOf(w)
	switch {
	case !held && !ok:
		keep.NoPool = true
		return keep
	case !held && l.crosses(w):
		keep.Disagree = claimants(claims)
		return keep
	}
	next, action := e, Change
	if !held {
		next, action = Entry{Name: w.Name(), Address: w.Address, Port: w.Port, Pool: pool, ProxyPool: claims[0].ProxyPool}, Create
	}
	left := l.left(e, claims)
	holders, exchanged := take(left, claims)
	contested := held && (e.ProxyPool != claims[0].ProxyPool || !slices.EqualFunc(left, e.Holders, equalHolders) || exchanged && e.Phase != Moved)
	switch {
	case !contested && e.Phase == Moved:
		return keep // it is served as a granted one
	case !contested:
	case e.Phase == Granted && len(who.Against) > 0:
		for _, p := range claimants(claims) {
			if who.Overruled(p) && !l.restoring(e.Pool) {
				keep.Stale = append(keep.Stale, p)
			} else {
				keep.Disagree = append(keep.Disagree, p)
			}
		}
		if len(keep.Disagree) > 0 {
			keep.Disagree = join(keep.Disagree, who.Against)
		}
		return keep
	case e.Phase == Granted && len(who.Behind) > 0:
		keep.Disagree = join(claimants(claims), who.Behind)
		return keep
	case len(who.Earlier) > 0 || e.Phase == Moved:
		keep.Disagree = join(claimants(claims), who.Earlier)
		return keep
	}
	next.Holders, next.Phase, next.ProxyPool = holders, Granted, claims[0].ProxyPool
	if keep.Full = len(next.Holders) > MaxHolders; keep.Full || held && next.Equal(e) {
		return keep
	}
	return Adopted{Step: Step{action, next}}
}

// crosses says that the ledger grants otherwise what is claimed: the whole of an address of which a port is, or ports of one
// that is claimed whole.
func (l *Ledger) crosses(w What) bool {
	if w.Port == (Port{}) {
		return l.parts[w.Address] > 0
	}
	_, whole := l.byAddress[w.Address]
	return whole
}

// take adds what is claimed to what the holders have. A holder of which an Address can't name both has what is claimed, and
// that alone: its ports are exchanged.
func take(left []Holder, claims []Claim) (holders []Holder, exchanged bool) {
	e := Entry{Holders: left}
	for ref, ports := range claimedPorts(claims) {
		has, _ := e.Holder(ref)
		both := SortPorts(slices.Concat(has.Ports, ports))
		if len(both) > MaxPorts {
			both, exchanged = ports, true
		}
		e = e.With(ref, both)
	}
	return e.Holders, exchanged
}

// claimedPorts are those that are claimed for each holder, by whomever.
func claimedPorts(claims []Claim) map[Ref][]Port {
	out := map[Ref][]Port{}
	for _, c := range claims {
		out[c.Holder.Ref] = SortPorts(slices.Concat(out[c.Holder.Ref], c.Holder.Ports))
	}
	return out
}

// restoring says that a pool's ledger is an older copy: who follows it knows no better than it.
func (l *Ledger) restoring(pool string) bool {
	p := l.pools[pool]
	return p != nil && p.Restoring
}

// left is what the holders of e have beside what is claimed by others.
func (l *Ledger) left(e Entry, claims []Claim) []Holder {
	share := ShareNamespace
	if p := l.pools[e.Pool]; p != nil {
		share = p.Share
	}
	var out []Holder
	for _, h := range e.Holders {
		claims := slices.Clone(claims)
		claimed := slices.ContainsFunc(claims, func(c Claim) bool { return c.Holder.Ref == h.Ref })
		claims = slices.DeleteFunc(claims, func(c Claim) bool { return c.Holder.Ref == h.Ref })
		if !claimed && slices.ContainsFunc(claims, func(c Claim) bool {
			return e.Phase != Granted || share == ShareNone || share != ShareAny && c.Holder.Namespace != h.Namespace
		}) {
			continue
		}
		had := len(h.Ports)
		for _, c := range claims {
			h.Ports = slices.DeleteFunc(slices.Clone(h.Ports), func(p Port) bool { return slices.Contains(c.Holder.Ports, p) })
		}
		if claimed || len(h.Ports) > 0 || had == 0 {
			out = append(out, h)
		}
	}
	return out
}

func equalHolders(a, b Holder) bool { return a.Ref == b.Ref && slices.Equal(a.Ports, b.Ports) }

// contradiction names proxies that can't all be right; nil: they can. Nor can those who claim more ports for one holder
// than an Address can name.
func contradiction(claims []Claim) []string {
	for i, a := range claims {
		for _, b := range claims[:i] {
			if a.ProxyPool != b.ProxyPool || a.Holder.Ref != b.Holder.Ref && len(intersect(a.Holder.Ports, b.Holder.Ports)) > 0 {
				return join([]string{a.Proxy}, []string{b.Proxy})
			}
		}
	}
	for ref, ports := range claimedPorts(claims) {
		if len(ports) > MaxPorts {
			return claimants(slices.DeleteFunc(slices.Clone(claims), func(c Claim) bool { return c.Holder.Ref != ref }))
		}
	}
	return nil
}

func claimants(claims []Claim) []string {
	var out []string
	for _, c := range claims {
		out = append(out, c.Proxy)
	}
	return join(out, nil)
}

// join returns the names of both, sorted, each once.
func join(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
