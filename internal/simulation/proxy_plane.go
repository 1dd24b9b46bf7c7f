package simulation

import (
	"cmp"
	"maps"
	"slices"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/types"
)

// plane is what a host serves: it may outlive the process, and is judged by.
type plane struct {
	program *lb.Program
	refused []lb.Problem
	// conns are the open connections: those of frontends and members that are no more run on.
	conns map[conn]int64
	// untold are those that were open when their namespace ended.
	untold map[conn]bool
	// served are the generations of LoadBalancers that program was built from, by namespace/name.
	served map[types.NamespacedName]generation
	// verdicts are what the process found when program was applied.
	verdicts lb.Health
	// opened is the connection that was opened last; nil: none was since one ended.
	opened *conn
}

// conn is what connections have in common.
type conn struct {
	frontend lb.FrontendID
	member   lb.MemberKey
}

type generation struct {
	uid types.UID
	n   int64
}

func emptyPlane() *plane {
	return &plane{program: &lb.Program{}, conns: map[conn]int64{}, untold: map[conn]bool{}, served: map[types.NamespacedName]generation{}}
}

// has says that the plane has a socket for the frontend.
func (p *plane) has(f lb.FrontendID) bool {
	for _, l := range p.program.Listeners {
		if slices.Contains(l.Frontends, f) {
			return !p.refuses(f)
		}
	}
	return false
}

func (p *plane) refuses(f lb.FrontendID) bool {
	return slices.ContainsFunc(p.refused, func(r lb.Problem) bool {
		return r.Object.Namespace == string(f.Tenant) && r.Object.Name == f.LoadBalancer && r.Object.Port == f.Port
	})
}

// apply follows next; what closes has its connections run on.
func (p *plane) apply(next *lb.Program, refuse map[uint16]bool) {
	p.program, p.refused = next, nil
	for _, l := range next.Listeners {
		for _, f := range l.Frontends {
			if refuse[f.Port] {
				p.refused = append(p.refused, lb.Problem{
					Object: lb.ObjectRef{Kind: lb.KindLoadBalancer, Namespace: string(f.Tenant), Name: f.LoadBalancer, Port: f.Port, Protocol: f.Protocol},
					Reason: "PortTaken", Message: "another process has it", Effect: lb.Refused,
				})
			}
		}
	}
}

// idle says that nothing is served, and nothing open.
func (p *plane) idle() bool { return len(p.program.Listeners) == 0 && len(p.conns) == 0 }

// frontends are those that are served.
func (p *plane) frontends() []lb.FrontendID {
	var out []lb.FrontendID
	for _, l := range p.program.Listeners {
		for _, f := range l.Frontends {
			if !p.refuses(f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// members are those that get a frontend's new connections.
func (p *plane) members(f lb.FrontendID) []lb.MemberKey {
	t := p.program.Tenants[f.Tenant]
	if t == nil {
		return nil
	}
	var out []lb.MemberKey
	for _, x := range t.Frontends {
		if pool := t.Pools[x.Pool]; x.ID == f && pool != nil && t.Groups[pool.Group] != nil {
			for _, m := range lb.Eligible(t.Groups[pool.Group], pool, p.program.Health) {
				out = append(out, m.Key())
			}
		}
	}
	return out
}

// sends says that new connections of a LoadBalancer, or of any where that is empty, go to a target.
func (p *plane) sends(namespace, loadBalancer, uid string) bool {
	for _, f := range p.frontends() {
		if string(f.Tenant) == namespace && (loadBalancer == "" || f.LoadBalancer == loadBalancer) && slices.ContainsFunc(p.members(f), func(m lb.MemberKey) bool { return m.UID == uid }) {
			return true
		}
	}
	return false
}

// leaves says that a connection's frontend or member takes no new one.
func (p *plane) leaves(c conn) bool {
	return !p.has(c.frontend) || !slices.Contains(p.members(c.frontend), c.member)
}

func (p *plane) observe() dataplane.Observation {
	o := dataplane.Observation{Draining: map[lb.TenantID]map[lb.MemberKey]int64{}, Closing: map[lb.FrontendID]int64{}}
	for c, n := range p.conns {
		if !p.has(c.frontend) {
			o.Closing[c.frontend] += n
		}
		if t := c.frontend.Tenant; !p.goesOn(c) {
			if o.Draining[t] == nil {
				o.Draining[t] = map[lb.MemberKey]int64{}
			}
			o.Draining[t][c.member] += n
		}
	}
	return o
}

// goesOn says that a connection's member takes new ones of its frontend; where that is no more, of any.
func (p *plane) goesOn(c conn) bool {
	if g := p.groupOf(c.frontend); g != nil && p.has(c.frontend) && slices.ContainsFunc(g.Members, func(m lb.Member) bool { return m.Key() == c.member }) {
		return slices.ContainsFunc(g.Members, func(m lb.Member) bool { return m.Key() == c.member && !m.Draining })
	}
	return p.serves(c.frontend.Tenant, c.member)
}

// groupOf is the group that a frontend sends to; nil: none.
func (p *plane) groupOf(f lb.FrontendID) *lb.Group {
	_, g := poolOf(p.program, f)
	return g
}

// serves says that a member is in the program, and isn't Draining.
func (p *plane) serves(t lb.TenantID, k lb.MemberKey) bool {
	s := p.program.Tenants[t]
	if s == nil {
		return false
	}
	for _, g := range s.Groups {
		if slices.ContainsFunc(g.Members, func(m lb.Member) bool { return m.Key() == k && !m.Draining }) {
			return true
		}
	}
	return false
}

// closing are the connections of frontends that are no more.
func (p *plane) closing() []conn {
	return slices.DeleteFunc(p.sorted(), func(c conn) bool { return p.has(c.frontend) })
}

func (p *plane) sorted() []conn {
	return slices.SortedFunc(maps.Keys(p.conns), func(a, b conn) int {
		x, y := a.frontend, b.frontend
		return cmp.Or(
			x.Address.Compare(y.Address), cmp.Compare(x.Tenant, y.Tenant), cmp.Compare(x.LoadBalancer, y.LoadBalancer), cmp.Compare(x.Port, y.Port),
			cmp.Compare(a.member.UID, b.member.UID), a.member.Address.Compare(b.member.Address),
		)
	})
}

// traffic opens or ends a connection. It says whether one ended that somebody may wait for.
func (p *plane) traffic(n func(int) int) bool {
	p.opened = nil
	all := p.sorted()
	leaving := slices.DeleteFunc(slices.Clone(all), func(c conn) bool { return !p.leaves(c) })
	ending := all
	if len(leaving) > 0 && n(2) == 0 {
		ending = leaving
	}
	if len(ending) > 0 && (len(leaving) > 0 && n(4) > 0 || n(2) == 0) {
		c := ending[n(len(ending))]
		leaves := p.leaves(c)
		if p.conns[c]--; p.conns[c] <= 0 {
			delete(p.conns, c)
			delete(p.untold, c)
		}
		return leaves
	}
	if ids := p.frontends(); len(ids) > 0 {
		f := ids[n(len(ids))]
		if members := p.members(f); len(members) > 0 {
			c := conn{f, members[n(len(members))]}
			p.conns[c]++
			p.opened = &c
		}
	}
	return false
}
