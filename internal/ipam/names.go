package ipam

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// What is held: an address, one port of it, or one port of all hosts of a pool of proxies. It is comparable.
type What struct {
	// Address; with Hosts the unspecified one of a family, which stands for all addresses of it.
	Address netip.Addr
	// Hosts is the pool of proxies on whose hosts the port is held; empty: it is held on Address.
	Hosts string
	// Port; the zero Port: the whole address.
	Port Port
}

// What stands for all addresses of a family of proxies' hosts.
const (
	HostsIPv4 = "0.0.0.0"
	HostsIPv6 = "::"
)

// hostsPrefix begins the names of what is held on hosts. No address's name begins so.
const hostsPrefix = "hosts-"

// Name of the Address that holds it: 192.0.2.7, fd00-0-0-0-0-0-0-7, 192.0.2.20.tcp.443, or hosts-edge.ipv4.tcp.20001.
// The API server makes it unique.
func (w What) Name() string {
	if w.Port == (Port{}) {
		return AddressName(w.Address)
	}
	place := AddressName(w.Address)
	if w.Hosts != "" {
		place = hostsPrefix + w.Hosts + "." + strings.ToLower(string(FamilyOf(w.Address)))
	}
	return fmt.Sprintf("%s.%s.%d", place, strings.ToLower(w.Port.Protocol), w.Port.Number)
}

// String says it to people.
func (w What) String() string {
	switch {
	case w.Port == (Port{}):
		return w.Address.String()
	case w.Hosts != "":
		return fmt.Sprintf("port %s of the hosts of proxy pool %s", w.Port, w.Hosts)
	}
	return fmt.Sprintf("port %s of %s", w.Port, w.Address)
}

// ParseName reads what Name wrote.
func ParseName(name string) (What, error) {
	if a, err := ParseAddressName(name); err == nil {
		return What{Address: a}, nil
	}
	bad := fmt.Errorf("address name %q: must be an address, one with protocol and port such as 192.0.2.20.tcp.443, or hosts-edge.ipv4.tcp.20001", name)
	rest, number, ok := cutLast(name)
	place, protocol, also := cutLast(rest)
	n, err := strconv.ParseUint(number, 10, 16)
	if !ok || !also || err != nil || n == 0 {
		return What{}, bad
	}
	w := What{Port: Port{strings.ToUpper(protocol), int32(n)}}
	if hosts, is := strings.CutPrefix(place, hostsPrefix); is {
		var family string
		w.Hosts, family, _ = cutLast(hosts)
		w.Address = netip.IPv4Unspecified()
		if family == "ipv6" {
			w.Address = netip.IPv6Unspecified()
		}
	} else if w.Address, err = ParseAddressName(place); err != nil {
		return What{}, bad
	}
	if w.Name() != name || w.Hosts == "" && w.Address.IsUnspecified() {
		return What{}, bad
	}
	return w, nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// AddressName is the name of the Address that holds a: itself for IPv4, fully
// expanded with dashes for IPv6.
func AddressName(a netip.Addr) string {
	a = a.Unmap()
	if a.Is4() {
		return a.String()
	}
	b := a.As16()
	parts := make([]string, 8)
	for i := range parts {
		parts[i] = fmt.Sprintf("%x", uint16(b[2*i])<<8|uint16(b[2*i+1]))
	}
	return strings.Join(parts, "-")
}

// ParseAddressName reads what AddressName wrote.
func ParseAddressName(name string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.ReplaceAll(name, "-", ":"))
	if err != nil || AddressName(a) != name {
		return netip.Addr{}, fmt.Errorf("address name %q: must be an IPv4 address, or an IPv6 address in full with hyphens", name)
	}
	return a.Unmap(), nil
}
