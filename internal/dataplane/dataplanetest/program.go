package dataplanetest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"fairlead.dev/fairlead/internal/lb"
)

// shop is the tenant that has what names no other.
const shop lb.TenantID = "shop"

// service is one frontend with its pool and its group, in short.
type service struct {
	tenant   lb.TenantID
	name     string
	at       netip.AddrPort
	protocol lb.Protocol
	// port on the members.
	port    uint16
	members []lb.Member
	// group is the service's own unless it is named.
	group lb.GroupID
	// pool and front hold what differs from the plain case.
	pool  lb.Pool
	front lb.Frontend
}

// web is the plain service: TCP over IPv4, no check.
func web(members ...lb.Member) service {
	return service{name: "web", at: vip(1, 80), port: echoPort, members: members}
}

// dns is the plain service over UDP.
func dns(members ...lb.Member) service {
	return service{name: "dns", at: vip(1, 53), protocol: lb.UDP, port: echoPort, members: members}
}

// vip is an address that is served; vip6 one of IPv6.
func vip(n, port int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("10.80.0.%d:%d", n, port))
}

func vip6(n, port int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("[fd80::%d]:%d", n, port))
}

// m is the member of that number; m6 the same one's IPv6 address.
func m(n int) lb.Member {
	name := fmt.Sprintf("m%d", n)
	return lb.Member{
		UID: name, Name: name, TargetGroup: "nodes", GroupUID: "nodes", Address: netip.MustParseAddr(memberAddress(n)),
		Weight: 1, Ready: true, DrainFor: lb.DrainUnset,
	}
}

func m6(n int) lb.Member {
	out := m(n)
	out.Address = netip.MustParseAddr(memberAddress6(n))
	return out
}

func weighing(m lb.Member, weight int) lb.Member {
	m.Weight = weight
	return m
}

func inZone(m lb.Member, zone string) lb.Member {
	m.Zone = zone
	return m
}

func draining(m lb.Member) lb.Member {
	m.Draining = true
	return m
}

func (s *service) complete() {
	s.tenant = cmp.Or(s.tenant, shop)
	s.protocol = cmp.Or(s.protocol, lb.TCP)
	s.group = cmp.Or(s.group, lb.GroupID(s.name))
	s.pool.Hash = cmp.Or(s.pool.Hash, lb.HashFlow)
	s.pool.ID = lb.PoolID(fmt.Sprintf("%s/%s/%d", s.name, s.protocol, s.at.Port()))
	if s.at.Addr().Is6() {
		s.pool.ID += "/6"
	}
	s.pool.Group, s.pool.Port = s.group, s.port
	s.front.Pool = s.pool.ID
	s.front.ID = s.id()
}

// id is the frontend's.
func (s service) id() lb.FrontendID {
	return lb.FrontendID{
		Tenant: cmp.Or(s.tenant, shop), LoadBalancer: s.name, Address: s.at.Addr(), Protocol: cmp.Or(s.protocol, lb.TCP), Port: s.at.Port(),
	}
}

// program is what a proxy serves that serves the services.
func program(services ...service) *lb.Program {
	p := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}}
	for _, s := range services {
		s.complete()
		snap := p.Tenants[s.tenant]
		if snap == nil {
			snap = &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{}}
			p.Tenants[s.tenant] = snap
		}
		members := slices.SortedFunc(slices.Values(s.members), func(a, b lb.Member) int { return a.Key().Compare(b.Key()) })
		snap.Frontends = append(snap.Frontends, &s.front)
		snap.Pools[s.pool.ID] = &s.pool
		snap.Groups[s.group] = &lb.Group{ID: s.group, Members: members}
	}
	arrange(p)
	return p
}

// arrange sorts the frontends and makes the listeners.
func arrange(p *lb.Program) {
	p.Listeners = nil
	for _, s := range p.Tenants {
		slices.SortFunc(s.Frontends, func(a, b *lb.Frontend) int { return compareIDs(a.ID, b.ID) })
		for _, f := range s.Frontends {
			p.Listeners = append(p.Listeners, lb.Listener{Socket: f.ID.Socket(), Frontends: []lb.FrontendID{f.ID}})
		}
	}
	slices.SortFunc(p.Listeners, func(a, b lb.Listener) int {
		x, y := a.Socket, b.Socket
		return cmp.Or(x.Address.Compare(y.Address), strings.Compare(string(x.Protocol), string(y.Protocol)), cmp.Compare(x.Port, y.Port))
	})
}

func compareIDs(a, b lb.FrontendID) int {
	return cmp.Or(strings.Compare(a.LoadBalancer, b.LoadBalancer), a.Address.Compare(b.Address),
		strings.Compare(string(a.Protocol), string(b.Protocol)), cmp.Compare(a.Port, b.Port))
}

// concerns says whether a Problem is about the service.
func (s service) concerns(p lb.Problem) bool {
	id, o := s.id(), p.Object
	return o.Kind == lb.KindLoadBalancer && o.Namespace == string(id.Tenant) && o.Name == id.LoadBalancer &&
		(o.Port == 0 || o.Port == id.Port && (o.Protocol == "" || o.Protocol == id.Protocol))
}
