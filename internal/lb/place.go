package lb

import (
	"net/netip"
	"slices"
)

// Placement says how many proxies of a pool serve an address.
type Placement string

const (
	// PlacementEvery: all of them.
	PlacementEvery Placement = "Every"
	// PlacementOne: one, the next best when it is gone.
	PlacementOne Placement = "One"
)

// ProxyRef is a proxy that may serve.
type ProxyRef struct {
	Name string
	// Zone is not looked at by the placements that there are.
	Zone string
}

// Place returns the names of the proxies that serve an address, sorted, each
// once. Every proxy evaluates it for itself: it depends on its arguments alone,
// whatever their order. With PlacementOne it is rendezvous hashing: a proxy that
// joins takes only addresses for itself, and one that leaves moves only its own.
func Place(address netip.Addr, p Placement, proxies []ProxyRef) []string {
	names := make([]string, 0, len(proxies))
	for _, x := range proxies {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if p != PlacementOne || len(names) == 0 {
		return names
	}
	best, most := names[0], uint64(0)
	for _, n := range names {
		if h := hashAddr(mix(hashString(fnvOffset, n)), address); h > most {
			best, most = n, h
		}
	}
	return []string{best}
}
