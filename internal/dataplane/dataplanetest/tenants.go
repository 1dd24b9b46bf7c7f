package dataplanetest

import (
	"maps"
	"net/netip"
	"slices"

	"fairlead.dev/fairlead/internal/lb"
)

func tenantFlows() []flow {
	return []flow{
		{
			name: "SharedAddress", says: "Two tenants' ports on one address are strangers to each other", members: 2,
			needs: func() []service { return []service{web(m(1)), neighbour(m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1)), neighbour(m(2)))
				w.only(vip(1, 80), 1)
				w.only(vip(1, 81), 2)
				c := w.dial(vip(1, 81))
				p.apply(web(draining(m(1))), neighbour(m(2)))
				w.turnedAway(noSource, vip(1, 80))
				w.only(vip(1, 81), 2)
				// The same target is another member in another tenant.
				p.apply(web(draining(m(2)), m(1)), neighbour(m(2)))
				w.only(vip(1, 80), 1)
				w.only(vip(1, 81), 2)
				p.apply(neighbour(m(2)))
				w.unserved(noSource, vip(1, 80))
				w.only(vip(1, 81), 2)
				w.works("the neighbour's connection", c)
				if n := len(p.observe().Draining["neighbour"]); n > 0 {
					w.Errorf("%d members of the neighbour drain", n)
				}
			},
		},
		{
			name: "ImpossibleTenant", says: "A tenant's impossible input costs that port only, and no other tenant anything", members: 2,
			needs: func() []service { return []service{web(m(1)), neighbour(m(2))} },
			run:   impossible,
		},
		{
			name: "TakenPort", says: "A port that another program of the host has is served, or refused by name at nobody else's cost", members: 2,
			needs: func() []service { return []service{web(m(1)), neighbour(m(2))} },
			run: func(w *world, p *proxy) {
				lb := w.hosts[0]
				if w.factory.Addresses == Routed {
					lb.ns.Local(vips)
					w.must(w.net.Err())
				}
				l, err := lb.ns.Listen("tcp", vip(1, 80).String())
				w.must(err)
				defer l.Close()
				both := []service{web(m(1)), neighbour(m(2))}
				refused := p.applyProgram(program(both...)).Outcome.Refused
				w.only(vip(1, 81), 2)
				switch {
				case len(refused) == 0:
				case len(refused) == 1 && both[0].concerns(refused[0]) && refused[0].Message != "":
					l.Close()
					p.apply(both...)
				default:
					w.Errorf("refused: %v", refused)
				}
				w.only(vip(1, 80), 1)
			},
		},
	}
}

// neighbour is another tenant's service on web's address.
func neighbour(members ...lb.Member) service {
	s := web(members...)
	s.tenant, s.name, s.at = "neighbour", "web", vip(1, 81)
	return s
}

// impossible applies what no builder should make, each beside another tenant, with what Check refuses left out as a proxy does.
func impossible(w *world, p *proxy) {
	bad := map[string]func(*lb.Snapshot){
		"no such protocol": func(s *lb.Snapshot) { s.Frontends[0].ID.Protocol = "QUIC" },
		"no pool":          func(s *lb.Snapshot) { clear(s.Pools) },
		"no group":         func(s *lb.Snapshot) { clear(s.Groups) },
		"no target port": func(s *lb.Snapshot) {
			for _, p := range s.Pools {
				p.Port = 0
			}
		},
		"members of the other family": func(s *lb.Snapshot) { s.Groups["web"].Members = []lb.Member{m6(1)} },
		"a member without address":    func(s *lb.Snapshot) { s.Groups["web"].Members[0].Address = netip.Addr{} },
		"a member that is no host":    func(s *lb.Snapshot) { s.Groups["web"].Members[0].Address = netip.MustParseAddr("255.255.255.255") },
		"absurd weights":              func(s *lb.Snapshot) { s.Groups["web"].Members[0].Weight = 1 << 40 },
	}
	p.apply(web(m(1)), neighbour(m(2)))
	c := w.dial(vip(1, 81))
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		spoil := bad[name]
		next := program(web(m(1)), neighbour(m(2)))
		spoil(next.Tenants[shop])
		next = without(next, p.check(next))
		out := p.applyProgram(next).Outcome
		for _, problem := range out.Refused {
			if problem.Object.Namespace != string(shop) {
				w.Errorf("%s: refused is %v", name, problem)
			}
		}
		w.Log("with ", name)
		w.only(vip(1, 81), 2)
		w.works("the neighbour's connection", c)
		for _, n := range []int{1, 2} { // All is well again, for later changes too.
			p.apply(web(m(n)), neighbour(m(2)))
			w.only(vip(1, 80), n)
		}
	}
}

// without is the Program less the ports that are refused.
func without(p *lb.Program, problems []lb.Problem) *lb.Program {
	for _, s := range p.Tenants {
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f *lb.Frontend) bool {
			return slices.ContainsFunc(problems, func(p lb.Problem) bool {
				o := p.Object
				return p.Effect == lb.Refused && o.Namespace == string(f.ID.Tenant) && o.Name == f.ID.LoadBalancer &&
					(o.Port == 0 || o.Port == f.ID.Port && (o.Protocol == "" || o.Protocol == f.ID.Protocol))
			})
		})
	}
	arrange(p)
	return p
}
