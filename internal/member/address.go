package member

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Address of a Machine or Node: both list them alike, each with a type.
type Address struct{ Type, Value string }

// DefaultAddressTypes are those of Machines and Nodes that are used, in their order, where spec.addressTypes names none. A
// Hostname most often can't be looked up from elsewhere, so it must be asked for.
func DefaultAddressTypes() []string {
	return []string{"InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"}
}

// Addresses returns those of have that traffic may go to, the best first: at most one IP address of each family; where there
// is none, one name. types gives the order; within a type their own counts. own says which addresses are the load balancer's:
// a node that holds one lists it, too, and must not be sent to as itself.
//
// What providers write is read leniently: a mask or brackets are left away, and an address is taken for one whatever its type.
// Link-local addresses, those with a zone, multicast and unspecified ones are never used, loopback where there is no other.
func Addresses(have []Address, types []string, own func(netip.Addr) bool) []string {
	if len(types) == 0 {
		types = DefaultAddressTypes()
	}
	var best, loopback [2]netip.Addr
	name := ""
	for _, t := range types {
		for _, a := range have {
			if a.Type != t {
				continue
			}
			ip, err := parseLenient(a.Value)
			switch {
			case err != nil && name == "" && !strings.HasSuffix(t, "IP"):
				name = hostName(a.Value)
			case err != nil, !usable(ip), own != nil && own(ip):
			case ip.IsLoopback():
				first(&loopback, ip)
			default:
				first(&best, ip)
			}
		}
	}
	for f := range best {
		if !best[0].IsValid() && !best[1].IsValid() && loopback[f].IsValid() {
			best = loopback
		}
	}
	var out []string
	for _, ip := range best {
		if ip.IsValid() {
			out = append(out, ip.String())
		}
	}
	if len(out) == 0 && name != "" {
		out = append(out, name)
	}
	return out
}

// first keeps the first address of each family.
func first(of *[2]netip.Addr, ip netip.Addr) {
	f := 0
	if ip.Is6() {
		f = 1
	}
	if !of[f].IsValid() {
		of[f] = ip
	}
}

// parseLenient reads 10.0.0.4, 10.0.0.4/24, fd00::4, fd00::4/64 and [fd00::4].
func parseLenient(s string) (netip.Addr, error) {
	s = strings.TrimSpace(s)
	s, _, _ = strings.Cut(s, "/")
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return ip.Unmap(), err
}

func usable(ip netip.Addr) bool {
	return ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// dnsName is a DNS name as Kubernetes has them.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// hostName reads a name; "": it is none.
func hostName(s string) string {
	s = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(s), "."))
	if len(s) > 253 || !dnsName.MatchString(s) {
		return ""
	}
	return s
}

// OwnAddresses are a load balancer's: those that it is served on, and those of its endpoints that are addresses.
func OwnAddresses(values ...string) func(netip.Addr) bool {
	var own []netip.Addr
	for _, v := range values {
		if ip, err := parseLenient(v); err == nil {
			own = append(own, ip)
		}
	}
	return func(ip netip.Addr) bool { return slices.Contains(own, ip) }
}
