package hollow

import (
	"fmt"
	"net/netip"
)

// podsPerNode is how many Pod addresses a node has: .1 to .250 of its /24.
const podsPerNode = 250

// podCIDRs are the ranges of the node with this number, counted from 1: IPv4, and IPv6 if it has two families.
func podCIDRs(index, families int) []string {
	return []string{fmt.Sprintf("10.244.%d.0/24", index), netip.PrefixFrom(podAddress6(index, 0), 64).String()}[:families]
}

// podAddress6 is the IPv6 address that goes with an IPv4 one.
func podAddress6(index int, last byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x10, 0x02, 0x44, 0, byte(index), 15: last})
}

// addresses hands out one node's Pod addresses. Not for concurrent use.
type addresses struct {
	index int
	used  map[netip.Addr]bool
	last  int
}

func newAddresses(index int) *addresses {
	return &addresses{index: index, used: map[netip.Addr]bool{}}
}

// take returns wanted if it is free, else the free address that was freed or never
// used for the longest: an address just freed is not given to another Pod at once.
// It returns false when all are taken.
func (a *addresses) take(wanted string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(wanted); err == nil && a.owns(ip) && !a.used[ip] {
		a.used[ip] = true
		return ip, true
	}
	for range podsPerNode {
		a.last = a.last%podsPerNode + 1
		if ip := a.at(a.last); !a.used[ip] {
			a.used[ip] = true
			return ip, true
		}
	}
	return netip.Addr{}, false
}

func (a *addresses) free(ip netip.Addr) { delete(a.used, ip) }

func (a *addresses) at(last int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 244, byte(a.index), byte(last)})
}

func (a *addresses) owns(ip netip.Addr) bool {
	return ip.Is4() && netip.PrefixFrom(a.at(0), 24).Contains(ip)
}
