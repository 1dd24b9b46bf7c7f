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
		return p.Contains(a) && (!special(a) || special(p.Addr()))
	})
}

// special addresses are the proxy's own loopback and a cloud's metadata services: a wide range does not mean them.
func special(a netip.Addr) bool {
	switch a {
	case netip.AddrFrom4([4]byte{168, 63, 129, 16}), // Azure's
		netip.AddrFrom4([4]byte{100, 100, 100, 200}): // Alibaba's
		return true
	}
	switch netip.PrefixFrom(a, 32).Masked().Addr() {
	case netip.AddrFrom16([16]byte{0xfd, 0x00, 0x0e, 0xc2}), // AWS's fd00:ec2::/32
		netip.AddrFrom16([16]byte{0xfd, 0x20, 0x00, 0xce}): // Google's fd20:ce::/32
		return true
	}
	if inner := embedded(a); inner.IsValid() {
		return special(inner)
	}
	return a.IsLoopback() || a.IsLinkLocalUnicast()
}

// embedded is the IPv4 address that a translator or a tunnel on the way makes of an IPv6 address; the zero one: none.
// RFC 6052's 64:ff9b::/96, 6to4's 2002::/16, and ::/96, which is neither :: nor ::1.
func embedded(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.Addr{}
	}
	b := a.As16()
	switch {
	case netip.PrefixFrom(a, 96).Masked().Addr() == netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b}),
		netip.PrefixFrom(a, 96).Masked().Addr() == netip.IPv6Unspecified() && !a.IsLoopback():
		return netip.AddrFrom4([4]byte(b[12:]))
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return netip.Addr{}
}

// contains says that a lies in one of the ranges, whether that opens it or not.
func (r reach) contains(a netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// has says that there is a range of the family.
func (r reach) has(f family) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return familyOf(p.Addr()) == f })
}

func (r reach) equal(o reach) bool {
	return r.unbound == o.unbound && slices.Equal(r.prefixes, o.prefixes)
}

// targetGroup is what was read from one TargetGroup. It is immutable.
type targetGroup struct {
	object *v1alpha1.TargetGroup
	// members that may be sent to; sorted, each key once.
	members byFamily[[]lb.Member]
	// sendable counts the targets that have an address which may be sent to, or a name.
	sendable int
	// names that targets are known by alone, sorted, each once.
	names []string
	// absent targets have names that stand for no address which may be sent to, or for others too.
	absent   []lb.Absent
	check    *clusterv1.HealthCheck
	problems []lb.Problem
}

// sendsLike says that both give their selections the same.
func (g *targetGroup) sendsLike(o *targetGroup) bool {
	for f := range families {
		if !slices.Equal(g.members[f], o.members[f]) {
			return false
		}
	}
	return equalCheck(g.check, o.check)
}

func equalCheck(a, b *clusterv1.HealthCheck) bool {
	if a == nil || b == nil {
		return a == b
	}
	return checkOf(a, 0) == checkOf(b, 0)
}

// ValidateTargetGroup judges a TargetGroup in a namespace of a Tenant, or of
// none if that is nil; a is Admit's word on that namespace. Its Problems cost single targets or fields, never others.
func ValidateTargetGroup(g *v1alpha1.TargetGroup, tenant *v1alpha1.Tenant, a Admission) []lb.Problem {
	if g == nil {
		return nil
	}
	return readTargetGroup(g, reachOf(tenant), a, nil).problems
}

// Sendable returns how many targets of a TargetGroup may be sent to; it judges as ValidateTargetGroup does, and
// expects the best of names.
func Sendable(g *v1alpha1.TargetGroup, tenant *v1alpha1.Tenant, a Admission) int {
	return readTargetGroup(g, reachOf(tenant), a, nil).sendable
}

// readTargetGroup reads a TargetGroup whose targets lie within r; names are the addresses that names stand for.
func readTargetGroup(g *v1alpha1.TargetGroup, r reach, quota Admission, names map[string][]netip.Addr) *targetGroup {
	f := &findings{object: lb.ObjectRef{Kind: lb.KindTargetGroup, Namespace: g.Namespace, Name: g.Name}}
	f.healthCheck("spec.healthCheck", g.Spec.HealthCheck)
	out := &targetGroup{object: g, check: usable(g.Spec.HealthCheck)}
	seen := make(map[lb.MemberKey]bool, len(g.Spec.Targets))
	for i := range g.Spec.Targets {
		t := &g.Spec.Targets[i]
		m, ok := f.member(i, t)
		if !ok {
			continue
		}
		if quota.LeavesOut(g, i) {
			f.without(fmt.Sprintf("spec.targets[%d]", i), clusterv1.ReasonQuotaExceeded, "target %q is beyond the %d that the Tenant may have, it is left out: take others out, or have the hub's operator set a larger spec.quota.targets", t.Name, quota.bound)
			continue
		}
		m.TargetGroup, m.GroupUID = g.Name, string(g.UID)
		m.Draining = g.Drains(i)
		own, name := f.addresses(i, t)
		addresses := f.allowed(i, t, own, r)
		if name != "" {
			out.names = append(out.names, name)
			a := lb.Absent{TargetGroup: g.Name, GroupUID: string(g.UID), UID: m.UID, Target: m.Name, Name: name}
			addresses, a.Outside, a.Beyond = allowedOf(names[name], r)
			a.Used = len(addresses)
			if (a.Used == 0 || a.Outside+a.Beyond > 0) && !m.Draining {
				out.absent = append(out.absent, a)
			}
		}
		if len(addresses) > 0 || name != "" {
			out.sendable++
		}
		for _, a := range addresses {
			m.Address = a
			if seen[m.Key()] {
				f.without(targetField(i, "uid"), clusterv1.ReasonInvalid, "target %q has the UID and address of an earlier one, it is left out: remove it", m.Name)
				continue
			}
			seen[m.Key()] = true
			out.members[familyOf(a)] = append(out.members[familyOf(a)], m)
		}
	}
	for _, ms := range out.members {
		slices.SortFunc(ms, func(a, b lb.Member) int { return a.Key().Compare(b.Key()) })
	}
	slices.Sort(out.names)
	out.names = slices.Compact(out.names)
	out.problems = f.sorted()
	return out
}

func targetField(i int, field string) string { return fmt.Sprintf("spec.targets[%d].%s", i, field) }

// member reads one target but for its addresses; false: it gets no traffic, which a Problem says.
func (f *findings) member(i int, t *v1alpha1.Target) (lb.Member, bool) {
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
	return m, true
}
