package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

const (
	// maxEntries is what one list of a ProxyReport holds.
	maxEntries = 500
	// quiet is how long a member may be unchecked before that is worth a word: a new Service's members are so for a moment.
	quiet = 2 * time.Second
)

// content is one namespace's exceptions, sorted.
type content struct {
	Refused   []v1alpha1.RefusedFrontend
	Without   []v1alpha1.RefusedFrontend
	Members   []v1alpha1.ReportedMember
	Addresses []v1alpha1.ReportedAddress
	Serves    []v1alpha1.ServedAddress
	// Missing are those of namespaces that the hub hasn't.
	Missing   []v1alpha1.MissingServedAddress
	Truncated bool
}

func (c *content) empty() bool {
	return len(c.Refused)+len(c.Without)+len(c.Members)+len(c.Addresses)+len(c.Serves)+len(c.Missing) == 0 && !c.Truncated
}

// provesGone says that c holds a word that somebody may act on by letting go.
func (c *content) provesGone() bool {
	return slices.ContainsFunc(c.Members, func(m v1alpha1.ReportedMember) bool { return m.State == v1alpha1.ReportedGone }) ||
		slices.ContainsFunc(c.Addresses, func(a v1alpha1.ReportedAddress) bool { return a.State == v1alpha1.ReportedGone })
}

// difference says how two contents differ, so that each is written in its time.
type difference int

const (
	same difference = iota
	// counts: open connections only.
	counts
	// health: members' health only.
	health
	// proof: what somebody waits for.
	proof
)

func (c *content) differs(o *content) difference {
	if !slices.Equal(c.Refused, o.Refused) || !slices.Equal(c.Without, o.Without) || c.Truncated != o.Truncated ||
		!slices.EqualFunc(c.Addresses, o.Addresses, sameAddress) || !slices.EqualFunc(c.Serves, o.Serves, sameServed) ||
		!slices.EqualFunc(c.Missing, o.Missing, sameMissing) ||
		!slices.EqualFunc(drains(c.Members), drains(o.Members), sameMember) {
		return proof
	}
	if !slices.EqualFunc(c.Members, o.Members, sameMember) {
		return health
	}
	if !slices.Equal(c.Members, o.Members) || !slices.Equal(c.Addresses, o.Addresses) {
		return counts
	}
	return same
}

func sameMember(a, b v1alpha1.ReportedMember) bool {
	a.OpenConnections, b.OpenConnections = 0, 0
	return a == b
}

func sameAddress(a, b v1alpha1.ReportedAddress) bool {
	a.OpenConnections, b.OpenConnections = 0, 0
	return a == b
}

func drains(ms []v1alpha1.ReportedMember) []v1alpha1.ReportedMember {
	var out []v1alpha1.ReportedMember
	for _, m := range ms {
		if m.State == v1alpha1.ReportedDraining || m.State == v1alpha1.ReportedGone {
			out = append(out, m)
		}
	}
	return out
}

// exceptions turns what is served into what is to be reported, by namespace.
// It remembers the health of namespaces in which nothing changed. One
// goroutine uses it.
type exceptions struct {
	explain func(lb.Probe) string
	// names; nil: none is looked up.
	names   Names
	tenants map[lb.TenantID]*tenantHealth
	// verdicts are those of the call before.
	verdicts lb.Health
}

func newExceptions(explain func(lb.Probe) string, names Names) *exceptions {
	return &exceptions{explain: explain, names: names, tenants: map[lb.TenantID]*tenantHealth{}}
}

// of is what s has to say at a time. healthChanged: what is said of members that
// fail may be another than in the call before. again is when members turn from new to unchecked; zero: not by itself.
func (x *exceptions) of(s *served, now time.Time, healthChanged bool) (map[string]*content, time.Time) {
	out := map[string]*content{}
	in := func(ns string) *content {
		c := out[ns]
		if c == nil {
			c = &content{}
			out[ns] = c
		}
		return c
	}
	refused(s, in)
	draining(s, in)
	releasing(s, in)
	if s.Frozen != nil {
		for ns, serves := range s.Frozen.Serves {
			in(ns).Serves = serves
		}
	}
	again := x.health(s, now, healthChanged, in)
	for _, c := range out {
		c.finish()
	}
	return out, again
}

// finish sorts and bounds.
func (c *content) finish() {
	slices.SortFunc(c.Refused, compareFrontends)
	c.Refused = slices.Compact(c.Refused)
	slices.SortFunc(c.Without, compareFrontends)
	c.Without = slices.Compact(c.Without)
	c.Without = c.Without[:min(len(c.Without), maxEntries)] // Nobody waits for it.
	// What somebody waits for comes first, so that a long list loses the rest.
	slices.SortFunc(c.Members, func(a, b v1alpha1.ReportedMember) int {
		return cmp.Or(cmp.Compare(weight(a.State), weight(b.State)), cmp.Compare(a.TargetGroup, b.TargetGroup), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Check, b.Check), cmp.Compare(a.TargetUID, b.TargetUID), cmp.Compare(a.GroupUID, b.GroupUID))
	})
	c.fewAddresses()
	if len(c.Refused) > maxEntries {
		c.Refused, c.Truncated = c.Refused[:maxEntries], true
	}
	if len(c.Serves) > maxEntries {
		c.Serves, c.Truncated = c.Serves[:maxEntries], true
	}
	if len(c.Members) > maxEntries {
		c.Members, c.Truncated = c.Members[:maxEntries], true
	}
}

func compareFrontends(a, b v1alpha1.RefusedFrontend) int {
	return cmp.Or(cmp.Compare(a.LoadBalancer, b.LoadBalancer), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Problem.Reason, b.Problem.Reason), cmp.Compare(a.Problem.Message, b.Problem.Message))
}

func weight(s v1alpha1.ReportedState) int {
	switch s {
	case v1alpha1.ReportedGone:
		return 0
	case v1alpha1.ReportedDraining:
		return 1
	case v1alpha1.ReportedUnhealthy:
		return 2
	}
	return 3
}

func refused(s *served, in func(string) *content) {
	add := func(p lb.Problem) {
		if p.Object.Kind != lb.KindLoadBalancer {
			return
		}
		c := in(p.Object.Namespace)
		f := v1alpha1.RefusedFrontend{
			LoadBalancer: p.Object.Name,
			Port:         int32(p.Object.Port),
			Protocol:     clusterv1.Protocol(p.Object.Protocol),
			Problem:      v1alpha1.Problem{Field: cut(p.Field, 253), Reason: cut(p.Reason, 63), Message: cut(p.Message, 1024)},
		}
		if p.Effect == lb.Refused {
			c.Refused = append(c.Refused, f)
			return
		}
		f.Port, f.Protocol = 0, "" // What a data plane can't do it can't do for any port.
		c.Without = append(c.Without, f)
	}
	for _, p := range s.Refused {
		add(p)
	}
	for _, t := range s.Program.Tenants {
		for _, p := range t.Refused {
			add(p)
		}
		partly(t, add)
	}
}

// partly tells each LoadBalancer that some addresses of a target's name are not sent to.
func partly(t *lb.Snapshot, add func(lb.Problem)) {
	for _, a := range t.Absent {
		if a.Used == 0 {
			continue // It is reported as a member.
		}
		p := lb.Problem{Field: "spec.selector", Effect: lb.ServedWithout, Reason: clusterv1.ReasonTargetNotAllowed}
		if a.Outside > 0 {
			p.Message = fmt.Sprintf("%d of the addresses of %s, target %q of TargetGroup %s, are no host's or lie in none of the Tenant's target ranges, they are left out: the hub's operator adds their range to spec.targetCIDRs", a.Outside, a.Name, a.Target, a.TargetGroup)
		} else {
			p.Reason = clusterv1.ReasonInvalid
			p.Message = fmt.Sprintf("%s, target %q of TargetGroup %s, stands for %d addresses, of which %d are used: use several names", a.Name, a.Target, a.TargetGroup, a.Used+a.Beyond, a.Used)
		}
		in := map[lb.GroupID]bool{}
		for id, g := range t.Groups {
			in[id] = slices.ContainsFunc(g.Members, func(m lb.Member) bool { return m.GroupUID == a.GroupUID && m.UID == a.UID })
		}
		for _, f := range t.Frontends { // sorted by LoadBalancer
			if pool := t.Pools[f.Pool]; pool != nil && in[pool.Group] && f.ID.LoadBalancer != p.Object.Name {
				p.Object = lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.ID.Tenant), Name: f.ID.LoadBalancer}
				add(p)
			}
		}
	}
}

// draining names each target that is to be drained: Draining while connections
// are open to any of its addresses, else Gone. Those that it no longer has count too.
func draining(s *served, in func(string) *content) {
	for _, tg := range s.Draining {
		open := s.Observation.Draining[lb.TenantID(tg.Namespace)]
		for i, t := range tg.Spec.Targets {
			if !tg.Drains(i) {
				continue
			}
			base := v1alpha1.ReportedMember{
				TargetGroup: tg.Name, GroupUID: string(tg.UID), Target: t.Name, TargetUID: t.UID,
			}
			c := in(tg.Namespace)
			add := func(address string, state v1alpha1.ReportedState, n int64) {
				m := base
				m.Address, m.State, m.OpenConnections = address, state, n
				c.Members = append(c.Members, m)
			}
			own := t.ServedAddress()
			listed, any := false, false
			for k, n := range open {
				if k.UID == t.UID {
					add(k.Address.String(), v1alpha1.ReportedDraining, n)
					listed, any = listed || k.Address.String() == own, true
				}
			}
			switch {
			case !any:
				add(own, v1alpha1.ReportedGone, 0)
			case !listed: // By it alone it is asked whether the target is gone.
				add(own, v1alpha1.ReportedDraining, 0)
			}
		}
	}
}

// cut bounds a text by the API's limit, at a whole character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
