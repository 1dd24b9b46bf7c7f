package build

import (
	"net/netip"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// family of an address, as an index.
type family int

const (
	ipv4 family = iota
	ipv6
	families
)

// byFamily holds one value for each family.
type byFamily[T any] [families]T

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

func (f family) name() clusterv1.IPFamily {
	if f == ipv4 {
		return clusterv1.IPv4
	}
	return clusterv1.IPv6
}
