package build

import (
	"net/netip"
	"slices"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// addresses are the target's first of each family, IPv4 first; or its first name, where it has no address at all.
func (f *findings) addresses(i int, t *v1alpha1.Target) (own []netip.Addr, name string) {
	field := targetField(i, "addresses")
	var first byFamily[netip.Addr]
	some := false
	for _, s := range t.Addresses {
		a, err := netip.ParseAddr(s)
		if err != nil {
			switch n, ok := hostName(s); {
			case !ok:
				f.without(field, clusterv1.ReasonInvalid, "%q of target %q is neither an IP address nor a DNS name: write its IP address", s, t.Name)
			case name == "":
				name = n
			}
			continue
		}
		some = true
		if a.Zone() != "" {
			f.without(field, clusterv1.ReasonInvalid, "%q of target %q has a zone identifier, which means nothing elsewhere: write an address without", s, t.Name)
			continue
		}
		if a = a.Unmap(); !first[familyOf(a)].IsValid() {
			first[familyOf(a)] = a
		}
	}
	for _, a := range first {
		switch {
		case !a.IsValid():
		case !hosts(a):
			f.without(field, clusterv1.ReasonInvalid, "%s of target %q is no host's address: write the host's", a, t.Name)
		default:
			own = append(own, a)
		}
	}
	if some {
		name = ""
	}
	return own, name
}

// hosts says that a host can have the address, and be reached by it from elsewhere or, with loopback, here.
func hosts(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && (a.Is4() || !a.IsLinkLocalUnicast())
}

// hostName is s as it is looked up, if it is a DNS name. What ends in a number is an address gone wrong.
func hostName(s string) (string, bool) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	last := s[strings.LastIndexByte(s, '.')+1:]
	return s, len(validation.IsDNS1123Subdomain(s)) == 0 && strings.ContainsFunc(last, func(r rune) bool { return r < '0' || r > '9' })
}

// allowed are those of the target's own addresses that lie within r. That a Tenant has no range of a family
// is no Problem of a target that has an address of the other: there the cluster has two families, and the hub one.
func (f *findings) allowed(i int, t *v1alpha1.Target, own []netip.Addr, r reach) []netip.Addr {
	var out, outside []netip.Addr
	for _, a := range own {
		if r.admits(a) {
			out = append(out, a)
		} else {
			outside = append(outside, a)
		}
	}
	for _, a := range outside {
		switch {
		case r.contains(a):
			f.without(targetField(i, "addresses"), clusterv1.ReasonTargetNotAllowed, "%s of target %q is loopback, link-local or a cloud's own, which a wider range doesn't open, it is left out: the hub's operator adds it to spec.targetCIDRs by itself", a, t.Name)
		case len(out) == 0 || r.has(familyOf(a)):
			f.without(targetField(i, "addresses"), clusterv1.ReasonTargetNotAllowed, "%s of target %q lies in none of the Tenant's target ranges, it is left out: the hub's operator adds its range to spec.targetCIDRs", a, t.Name)
		}
	}
	return out
}

// maxNamed bounds the addresses of one name that are used: a name is no way around the bound on targets.
const maxNamed = 64

// allowedOf are the addresses of a name that are sent to, and how many are not: those outside of r or that no host
// can have, and those beyond the bound. Which these are is not told: a name's owner may not know what else it stands
// for, and would only have to ask for names of others.
// That a Tenant has no range of a family is told as in allowed.
func allowedOf(known []netip.Addr, r reach) (used []netip.Addr, outside, beyond int) {
	foreign := 0
	for _, a := range known {
		if a = a.Unmap(); a.Zone() == "" && a.IsValid() && hosts(a) && r.admits(a) {
			used = append(used, a)
			continue
		}
		outside++
		if a.IsValid() && !r.has(familyOf(a)) {
			foreign++
		}
	}
	if len(used) > 0 {
		outside -= foreign
	}
	slices.SortFunc(used, netip.Addr.Compare)
	used = slices.Compact(used)
	beyond = max(len(used)-maxNamed, 0)
	return used[:len(used)-beyond], outside, beyond
}
