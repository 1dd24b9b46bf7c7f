package build

import (
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// reach says where a namespace's targets may lie.
type reach struct {
	// unbound is the hub operator's: anywhere.
	unbound  bool
	prefixes []netip.Prefix
}

// reachOf is the Tenant's; that of a namespace of no Tenant if it is nil. CIDRs that don't parse admit nothing.
func reachOf(tenant *v1alpha1.Tenant) reach {
	if tenant == nil {
		return reach{unbound: true}
	}
	var r reach
	for _, s := range tenant.Spec.TargetCIDRs {
		if p, err := netip.ParsePrefix(s); err == nil {
			r.prefixes = append(r.prefixes, p.Masked())
		}
	}
	return r
}

// ValidateTenant judges a Tenant's own spec.
func ValidateTenant(tenant *v1alpha1.Tenant) []lb.Problem {
	if tenant == nil {
		return nil
	}
	f := &findings{object: lb.ObjectRef{Kind: "Tenant", Name: tenant.Name}}
	for i, s := range tenant.Spec.TargetCIDRs {
		p, err := netip.ParsePrefix(s)
		if err != nil || p.Addr().Is4In6() {
			f.without(fmt.Sprintf("spec.targetCIDRs[%d]", i), clusterv1.ReasonInvalid, "%q is no CIDR, it admits no target: write it as 10.1.0.0/16", s)
		}
	}
	return f.sorted()
}

func (r reach) admits(a netip.Addr) bool {
	if r.unbound {
		return true
	}
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool {
		// A wide range does not mean the proxy's own loopback, nor a cloud's metadata service.
		return p.Contains(a) &&
			(!a.IsLoopback() || p.Addr().IsLoopback()) &&
			(!a.IsLinkLocalUnicast() || p.Addr().IsLinkLocalUnicast())
	})
}

// contains says that a lies in one of the ranges, whether that opens it or not.
func (r reach) contains(a netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (r reach) equal(o reach) bool {
	return r.unbound == o.unbound && slices.Equal(r.prefixes, o.prefixes)
}

// targetGroup is what was read from one TargetGroup. It is immutable.
type targetGroup struct {
	object *v1alpha1.TargetGroup
	// members have IPv4 addresses and may be sent to; sorted, each key once.
	members  []lb.Member
	check    *clusterv1.HealthCheck
	problems []lb.Problem
}

// sendsLike says that both give their selections the same.
func (g *targetGroup) sendsLike(o *targetGroup) bool {
	return slices.Equal(g.members, o.members) && equalCheck(g.check, o.check)
}

func equalCheck(a, b *clusterv1.HealthCheck) bool {
	if a == nil || b == nil {
		return a == b
	}
	return checkFrom(0, a) == checkFrom(0, b)
}

// ValidateTargetGroup judges a TargetGroup in a namespace of a Tenant, or of
// none if that is nil. Its Problems cost single targets or fields, never others.
func ValidateTargetGroup(g *v1alpha1.TargetGroup, tenant *v1alpha1.Tenant) []lb.Problem {
	if g == nil {
		return nil
	}
	return readTargetGroup(g, reachOf(tenant)).problems
}

// Sendable returns how many targets of a TargetGroup may be sent to; it judges as ValidateTargetGroup does.
func Sendable(g *v1alpha1.TargetGroup, tenant *v1alpha1.Tenant) int {
	return len(readTargetGroup(g, reachOf(tenant)).members)
}

func readTargetGroup(g *v1alpha1.TargetGroup, r reach) *targetGroup {
	f := &findings{object: lb.ObjectRef{Kind: lb.KindTargetGroup, Namespace: g.Namespace, Name: g.Name}}
	f.healthCheck("spec.healthCheck", g.Spec.HealthCheck)
	out := &targetGroup{object: g, check: usable(g.Spec.HealthCheck)}
	seen := make(map[lb.MemberKey]bool, len(g.Spec.Targets))
	for i := range g.Spec.Targets {
		m, ok := f.member(i, &g.Spec.Targets[i], r)
		if !ok {
			continue
		}
		if seen[m.Key()] {
			f.without(targetField(i, "uid"), clusterv1.ReasonInvalid, "target %q has the UID and address of an earlier one, it is left out: remove it", m.Name)
			continue
		}
		seen[m.Key()] = true
		m.TargetGroup, m.GroupUID = g.Name, string(g.UID)
		m.Draining = g.Drains(i)
		out.members = append(out.members, m)
	}
	slices.SortFunc(out.members, func(a, b lb.Member) int { return a.Key().Compare(b.Key()) })
	out.problems = f.sorted()
	return out
}

func targetField(i int, field string) string { return fmt.Sprintf("spec.targets[%d].%s", i, field) }

// member reads one target; false: it gets no traffic, which a Problem says unless it only waits for its address.
func (f *findings) member(i int, t *v1alpha1.Target, r reach) (lb.Member, bool) {
	m := lb.Member{UID: t.UID, Name: t.Name, Zone: t.Zone, Weight: 1, Ready: t.Ready == nil || *t.Ready, DrainFor: lb.DrainUnset}
	if t.UID == "" {
		f.without(targetField(i, "uid"), clusterv1.ReasonInvalid, "target %q has no UID, it is left out: set one", t.Name)
		return m, false
	}
	switch t.State {
	case "", v1alpha1.TargetServing, v1alpha1.TargetDraining:
	default:
		f.without(targetField(i, "state"), clusterv1.ReasonInvalid, "state %q of target %q is unknown, the target is left out: use Serving or Draining", t.State, t.Name)
		return m, false
	}
	if w := t.Weight; w != nil {
		if m.Weight = int(*w); m.Weight < 0 || m.Weight > 256 {
			m.Weight = 1
			f.without(targetField(i, "weight"), clusterv1.ReasonInvalid, "weight %d of target %q is out of bounds, 1 is used: use 0 to 256", *w, t.Name)
		}
	}
	if d := t.DrainFor; d != nil {
		f.bounded(targetField(i, "drainFor"), d, 0, maxDuration)
		if within(d, 0, maxDuration) {
			m.DrainFor = d.Duration
		}
	}
	a, ok := f.address(i, t)
	if !ok {
		return m, false
	}
	if !r.admits(a) {
		if r.contains(a) {
			f.without(targetField(i, "addresses"), clusterv1.ReasonTargetNotAllowed, "%s of target %q is loopback or link-local, which a wider range doesn't open, it is left out: the hub's operator adds it to spec.targetCIDRs by itself", a, t.Name)
			return m, false
		}
		f.without(targetField(i, "addresses"), clusterv1.ReasonTargetNotAllowed, "%s of target %q lies in none of the Tenant's target ranges, it is left out: the hub's operator adds its range to spec.targetCIDRs", a, t.Name)
		return m, false
	}
	m.Address = a
	return m, true
}

// address is the target's first IPv4 address.
func (f *findings) address(i int, t *v1alpha1.Target) (netip.Addr, bool) {
	six := false
	for _, s := range t.Addresses {
		a, err := netip.ParseAddr(s)
		if err != nil {
			f.without(targetField(i, "addresses"), clusterv1.ReasonNotSupported, "%q of target %q is no IP address, and names are not supported yet: write its IPv4 address", s, t.Name)
			continue
		}
		if a.Zone() != "" {
			f.without(targetField(i, "addresses"), clusterv1.ReasonInvalid, "%q of target %q has a zone identifier, which means nothing elsewhere: write an address without", s, t.Name)
			continue
		}
		if a = a.Unmap(); !a.Is4() {
			six = true
			continue
		}
		if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			f.without(targetField(i, "addresses"), clusterv1.ReasonInvalid, "%s of target %q is no host's address: write the host's", a, t.Name)
			return a, false
		}
		return a, true
	}
	if six {
		f.without(targetField(i, "addresses"), clusterv1.ReasonNotSupported, "target %q has no IPv4 address, and IPv6 is not supported yet: add one", t.Name)
	}
	return netip.Addr{}, false
}
