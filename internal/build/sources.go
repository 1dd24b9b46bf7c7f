package build

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// sources are the clients of each family that may connect: nil: all; empty: nobody.
type sources byFamily[[]netip.Prefix]

func (s sources) nobody(f family) bool { return s[f] != nil && len(s[f]) == 0 }

// readSources reads source ranges; an error names the first that is none. Where
// there are ranges, a family of which there is none is closed.
func readSources(ranges []string) (sources, error) {
	var out sources
	if len(ranges) == 0 {
		return out, nil
	}
	out = sources{{}, {}}
	for i, r := range ranges {
		p, err := netip.ParsePrefix(r)
		if err != nil {
			return out, fmt.Errorf("%q, number %d of them, is no CIDR", r, i+1)
		}
		if p.Addr().Is4In6() {
			if p.Bits() < 96 {
				return out, fmt.Errorf("%q, number %d of them, mixes IPv4 and IPv6", r, i+1)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		f := familyOf(p.Addr())
		out[f] = append(out[f], p.Masked())
	}
	for f := range out {
		if out[f] = disjoint(out[f]); len(out[f]) == 1 && out[f][0].Bits() == 0 {
			out[f] = nil
		}
	}
	return out, nil
}

// disjoint sorts prefixes of one family and leaves out those that lie within another.
func disjoint(ps []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	out := ps[:0]
	for _, p := range ps {
		// Whatever holds p comes before it, and nothing but what lies within comes between.
		if len(out) == 0 || !out[len(out)-1].Contains(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// sources finds what is wrong with the LoadBalancer's source ranges.
func (f *findings) sources(l *clusterv1.LoadBalancer) {
	s, err := readSources(l.Spec.SourceRanges)
	if err != nil {
		f.refuse("spec.sourceRanges", clusterv1.ReasonInvalid, "%v, and nobody may connect meanwhile: write it as 192.0.2.0/24", err)
		return
	}
	for family := range families {
		if s.nobody(family) && slices.Contains(l.Spec.IPFamilies, family.name()) {
			f.without("spec.sourceRanges", clusterv1.ReasonInvalid, "there is no %[1]s range, so nobody may connect over %[1]s: add one, or remove %[1]s from ipFamilies", family.name())
		}
	}
}

// proxyProtocol is the version of the PROXY protocol that the LoadBalancer asks for, 0 for none; false: it asks for one that isn't.
func proxyProtocol(l *clusterv1.LoadBalancer) (int, bool) {
	switch l.Spec.ProxyProtocol {
	case "":
		return 0, true
	case "V1":
		return 1, true
	case "V2":
		return 2, true
	}
	return 0, false
}
