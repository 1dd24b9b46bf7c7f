package nftables_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane/nftables"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

// fleet is n frontends of n/100 tenants, each over one group of some nodes.
func fleet(n, nodes int) *lb.Program { return fleetBy(n, nodes, 100) }

// fleetBy is n frontends of n/share tenants.
func fleetBy(n, nodes, share int) *lb.Program {
	b := newProgram()
	for i := range n {
		t := lb.TenantID(fmt.Sprintf("tenant-%d", i/share))
		if i%share == 0 {
			members := make([]lb.Member, nodes)
			for m := range members {
				members[m] = member(m, false)
				members[m].UID = fmt.Sprintf("uid-%03d", m)
				members[m].Address = netip.AddrFrom4([4]byte{10, 3, byte(i / share), byte(m + 1)})
			}
			b.group(t, "nodes", members...)
		}
		id := lb.PoolID(fmt.Sprintf("web-%d", i))
		a := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		b.pool(t, id, "nodes", uint16(30000+i%1000)).frontend(t, string(id), lb.TCP, netip.AddrPortFrom(a, 80).String(), id)
	}
	return b.done()
}

// without is p with the first member of the first tenant's group draining.
func without(p *lb.Program) *lb.Program {
	next := *p
	next.Tenants = map[lb.TenantID]*lb.Snapshot{}
	for t, s := range p.Tenants {
		next.Tenants[t] = s
	}
	s := *p.Tenants["tenant-0"]
	g := *s.Groups["nodes"]
	g.Members = append([]lb.Member(nil), g.Members...)
	g.Members[0].Draining = true
	s.Groups = map[lb.GroupID]*lb.Group{"nodes": &g}
	next.Tenants["tenant-0"] = &s
	return &next
}

// fewer is p without the first tenant's first frontend.
func fewer(p *lb.Program) *lb.Program {
	next := *p
	next.Tenants = map[lb.TenantID]*lb.Snapshot{}
	for t, s := range p.Tenants {
		next.Tenants[t] = s
	}
	s := *p.Tenants["tenant-0"]
	gone := s.Frontends[0].ID
	s.Frontends = s.Frontends[1:]
	next.Tenants["tenant-0"] = &s
	next.Listeners = nil
	for _, l := range p.Listeners {
		if l.Socket != gone.Socket() {
			next.Listeners = append(next.Listeners, l)
		}
	}
	return &next
}

func benchNamespace(b *testing.B) *netns.Namespace {
	n := netns.New()
	b.Cleanup(n.Close)
	ns := n.Namespace("host")
	ns.Set("ipv4/ip_forward", "1")
	if err := n.Err(); err != nil {
		b.Fatal(err)
	}
	return ns
}

func newIn(b *testing.B, ns *netns.Namespace) *nftables.Dataplane {
	var dp *nftables.Dataplane
	err := ns.Do(func() (err error) {
		dp, err = nftables.New(nftables.Options{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dp.Close(context.Background()) })
	return dp
}

var sizes = []struct{ frontends, nodes int }{{10, 3}, {1000, 3}, {10000, 3}, {10000, 50}}

func BenchmarkLoad(b *testing.B) {
	for _, s := range sizes {
		p := fleet(s.frontends, s.nodes)
		b.Run(fmt.Sprintf("frontends=%d/nodes=%d", s.frontends, s.nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dp := newIn(b, benchNamespace(b))
				b.StartTimer()
				if _, err := dp.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoadWithNothingShared is the worst case: each frontend has a group of its own.
func BenchmarkLoadWithNothingShared(b *testing.B) {
	p := fleetBy(10000, 3, 1)
	for b.Loop() {
		b.StopTimer()
		dp := newIn(b, benchNamespace(b))
		b.StartTimer()
		if _, err := dp.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestart(b *testing.B) {
	for _, s := range sizes {
		p := fleet(s.frontends, s.nodes)
		b.Run(fmt.Sprintf("frontends=%d/nodes=%d", s.frontends, s.nodes), func(b *testing.B) {
			ns := benchNamespace(b)
			first := newIn(b, ns)
			if _, err := first.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
				b.Fatal(err)
			}
			first.Close(b.Context())
			for b.Loop() {
				dp := newIn(b, ns)
				if _, err := dp.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
					b.Fatal(err)
				}
				dp.Close(b.Context())
			}
		})
	}
}

func benchmarkChange(b *testing.B, edit func(*lb.Program) *lb.Program) {
	for _, s := range sizes {
		p := fleet(s.frontends, s.nodes)
		next := edit(p)
		there, back := lb.Diff(p, next), lb.Diff(next, p)
		b.Run(fmt.Sprintf("frontends=%d/nodes=%d", s.frontends, s.nodes), func(b *testing.B) {
			dp := newIn(b, benchNamespace(b))
			if _, err := dp.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				to, changes := next, there
				if i%2 == 1 {
					to, changes = p, back
				}
				if _, err := dp.Apply(b.Context(), to, changes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMembersChange(b *testing.B)   { benchmarkChange(b, without) }
func BenchmarkFrontendsChange(b *testing.B) { benchmarkChange(b, fewer) }
