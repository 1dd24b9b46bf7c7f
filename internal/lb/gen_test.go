package lb

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

func drawAddr(t *rapid.T, label string) netip.Addr {
	if rapid.IntRange(0, 3).Draw(t, label+"-family") == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(rapid.IntRange(1, 30).Draw(t, label))})
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(rapid.IntRange(0, 1).Draw(t, label+"-net")), byte(rapid.IntRange(1, 30).Draw(t, label))})
}

// drawMembers draws members with different keys, sorted as in a Group.
func drawMembers(t *rapid.T, most int) []Member {
	keys := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) MemberKey {
		return MemberKey{fmt.Sprintf("uid-%d", rapid.IntRange(0, 200).Draw(t, "uid")), drawAddr(t, "address")}
	}), 0, most, rapid.ID[MemberKey]).Draw(t, "keys")
	slices.SortFunc(keys, MemberKey.Compare)
	var out []Member
	for _, k := range keys {
		out = append(out, Member{
			UID: k.UID, Address: k.Address, Name: "n-" + k.UID,
			Weight:   rapid.SampledFrom([]int{0, 1, 1, 1, 3}).Draw(t, "weight"),
			Ready:    rapid.Bool().Draw(t, "ready"),
			Draining: rapid.IntRange(0, 3).Draw(t, "draining") == 0,
			Zone:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone"),
		})
	}
	return out
}

func drawCheck(t *rapid.T) Check {
	return rapid.SampledFrom([]Check{
		{Kind: CheckNone},
		{Kind: CheckTCP, Port: 80, Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2},
		{Kind: CheckTCP, Port: 80, Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2, ProxyProtocol: 2},
		{Kind: CheckHTTPS, Port: 80, Path: "/readyz", Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2},
		{Kind: CheckHTTPS, Port: 80, Path: "/readyz", Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2, Lenient: true},
		{Kind: CheckHTTP, Port: 10256, Path: "/healthz", Interval: time.Second, Timeout: time.Second, Rise: 2, Fall: 2},
	}).Draw(t, "check")
}

// drawProgram draws a Program whose names collide with those of another draw.
func drawProgram(t *rapid.T) *Program {
	p := &Program{Tenants: map[TenantID]*Snapshot{}}
	sockets := map[Socket]bool{}
	for i := range rapid.IntRange(0, 3).Draw(t, "tenants") {
		id := TenantID(fmt.Sprintf("tenant-%d", i))
		s := &Snapshot{Pools: map[PoolID]*Pool{}, Groups: map[GroupID]*Group{}}
		for g := range rapid.IntRange(0, 2).Draw(t, "groups") {
			gid := GroupID(fmt.Sprintf("group-%d", g))
			s.Groups[gid] = &Group{ID: gid, Members: drawMembers(t, 5)}
		}
		for n := range rapid.IntRange(0, 4).Draw(t, "frontends") {
			f := &Frontend{
				ID: FrontendID{
					Tenant: id, LoadBalancer: fmt.Sprintf("lb-%d", n), Address: drawAddr(t, "frontend"),
					Protocol: rapid.SampledFrom([]Protocol{TCP, TCP, UDP, SCTP}).Draw(t, "protocol"), Port: uint16(rapid.IntRange(1, 3).Draw(t, "port")),
				},
				Pool:        PoolID(fmt.Sprintf("lb-%d", n)),
				IdleTimeout: time.Duration(rapid.IntRange(0, 1).Draw(t, "idle")),
				Sources: rapid.SampledFrom([][]netip.Prefix{
					nil, nil, {netip.MustParsePrefix("10.0.0.0/8")}, {netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")},
				}).Draw(t, "sources"),
				ProxyProtocol: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "proxy protocol"),
				Assign:        rapid.Bool().Draw(t, "assign"),
			}
			if sockets[f.ID.Socket()] {
				continue
			}
			sockets[f.ID.Socket()] = true
			s.Frontends = append(s.Frontends, f)
			s.Pools[f.Pool] = &Pool{
				ID: f.Pool, Group: "group-0", Port: uint16(rapid.IntRange(1, 2).Draw(t, "target")), Check: drawCheck(t),
				Zone: rapid.SampledFrom([]string{"", "a"}).Draw(t, "pool zone"), KeepClient: rapid.Bool().Draw(t, "keep client"),
			}
			p.Listeners = append(p.Listeners, Listener{f.ID.Socket(), []FrontendID{f.ID}})
		}
		if len(s.Frontends)+len(s.Pools)+len(s.Groups) > 0 {
			p.Tenants[id] = s
		}
	}
	slices.SortFunc(p.Listeners, func(a, b Listener) int { return a.Socket.Compare(b.Socket) })
	for range rapid.IntRange(0, 4).Draw(t, "verdicts") {
		c := drawCheck(t)
		if p.Health == nil {
			p.Health = Health{}
		}
		if p.Health[c] == nil {
			p.Health[c] = Verdicts{}
		}
		p.Health[c][drawAddr(t, "probe")] = rapid.SampledFrom([]Verdict{Healthy, Unhealthy}).Draw(t, "verdict")
	}
	return p
}
