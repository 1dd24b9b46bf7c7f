package main

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

const (
	tenant = lb.TenantID("tenant")
	nodes  = lb.GroupID("nodes")
	// portsAnAddress is how many frontends share an address.
	portsAnAddress = 100
)

// shape is a Program of one tenant: so many frontends, each with a pool of its own port, over one group of nodes, as
// Services of type LoadBalancer over a cluster's nodes are.
type shape struct {
	Frontends int
	Members   []netip.Addr
	// Service is the first address, of the first frontend. MemberPort is where members of the first and the last
	// frontend listen; nobody listens for the others, which nobody connects to.
	Service    netip.Addr
	MemberPort uint16
	// KeepClient: members see the client's address.
	KeepClient bool
}

// last is where the last frontend is served.
func (s *shape) last() netip.AddrPort { return s.socket(s.Frontends - 1) }

// socket is where frontend i is served.
func (s *shape) socket(i int) netip.AddrPort {
	a := s.Service.As4()
	a[3] += byte(i / portsAnAddress)
	return netip.AddrPortFrom(netip.AddrFrom4(a), uint16(servicePort+i%portsAnAddress))
}

// extra is where one more frontend is served, behind all others.
func (s *shape) extra() netip.AddrPort {
	a := s.Service.As4()
	a[2], a[3] = 200, 1
	return netip.AddrPortFrom(netip.AddrFrom4(a), servicePort)
}

func (s *shape) program() *lb.Program {
	snap := &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{nodes: s.group()}}
	p := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{tenant: snap}}
	for i := range s.Frontends {
		port := s.MemberPort
		if i > 0 && i < s.Frontends-1 {
			port = uint16(30000 + i)
		}
		s.add(p, snap, fmt.Sprintf("lb-%05d", i), s.socket(i), port)
	}
	return p
}

func (s *shape) group() *lb.Group {
	g := &lb.Group{ID: nodes}
	for i, a := range s.Members {
		uid := fmt.Sprintf("node-%02d", i)
		g.Members = append(g.Members, lb.Member{UID: uid, Name: uid, TargetGroup: "nodes-0", GroupUID: "nodes-0", Address: a, Weight: 1, Ready: true, DrainFor: lb.DrainUnset})
	}
	return g
}

// add appends a frontend; names and sockets must come in order.
func (s *shape) add(p *lb.Program, snap *lb.Snapshot, name string, at netip.AddrPort, memberPort uint16) {
	pool := &lb.Pool{
		ID: lb.PoolID(name), Group: nodes, Port: memberPort, Check: lb.Check{Kind: lb.CheckNone},
		Hash: lb.HashFlow, FailOpen: true, KeepClient: s.KeepClient,
	}
	f := &lb.Frontend{
		ID:   lb.FrontendID{Tenant: tenant, LoadBalancer: name, Address: at.Addr(), Protocol: lb.TCP, Port: at.Port()},
		Name: "http", Pool: pool.ID,
	}
	snap.Frontends = append(snap.Frontends, f)
	snap.Pools[pool.ID] = pool
	p.Listeners = append(p.Listeners, lb.Listener{Socket: f.ID.Socket(), Frontends: []lb.FrontendID{f.ID}})
}

// withDraining is p with one member draining, or not; all else is shared with p.
func withDraining(p *lb.Program, member netip.Addr, draining bool) *lb.Program {
	g := *p.Tenants[tenant].Groups[nodes]
	g.Members = slices.Clone(g.Members)
	for i := range g.Members {
		if g.Members[i].Address == member {
			g.Members[i].Draining = draining
		}
	}
	snap := *p.Tenants[tenant]
	snap.Groups = map[lb.GroupID]*lb.Group{nodes: &g}
	return &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{tenant: &snap}, Listeners: p.Listeners, Health: p.Health}
}

// withFrontend is p with one frontend more; all else is shared with p.
func (s *shape) withFrontend(p *lb.Program, at netip.AddrPort, memberPort uint16) *lb.Program {
	snap := *p.Tenants[tenant]
	snap.Frontends, snap.Pools = slices.Clone(snap.Frontends), maps.Clone(snap.Pools)
	next := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{tenant: &snap}, Listeners: slices.Clone(p.Listeners), Health: p.Health}
	s.add(next, &snap, "one-more", at, memberPort)
	return next
}
