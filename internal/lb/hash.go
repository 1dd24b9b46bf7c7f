package lb

import (
	"encoding/binary"
	"net/netip"
)

// The hashes have a fixed seed, so that every proxy chooses the same member for the same flow.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// hashString is FNV-1a over s, from seed.
func hashString(seed uint64, s string) uint64 {
	for i := range len(s) {
		seed = (seed ^ uint64(s[i])) * fnvPrime
	}
	return seed
}

// mix spreads a value's bits over all 64 (MurmurHash3's finalizer), which FNV does not.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func hashAddr(seed uint64, a netip.Addr) uint64 {
	b := a.Unmap().As16()
	seed = mix(seed ^ binary.BigEndian.Uint64(b[:8]))
	return mix(seed ^ binary.BigEndian.Uint64(b[8:]))
}

// FlowHash hashes a client's address and port. An IPv4 address and its
// IPv6-mapped form are the same.
func FlowHash(c netip.AddrPort) uint64 {
	return mix(hashAddr(fnvOffset, c.Addr()) + uint64(c.Port()))
}

// ClientHash hashes a client's address alone.
func ClientHash(a netip.Addr) uint64 { return hashAddr(fnvOffset, a) }

// Of hashes what h says of a client.
func (h Hash) Of(client netip.AddrPort) uint64 {
	if h == HashClientIP {
		return ClientHash(client.Addr())
	}
	return FlowHash(client)
}

func (k MemberKey) hash(seed uint64) uint64 {
	return hashAddr(mix(hashString(seed, k.UID)), k.Address)
}
