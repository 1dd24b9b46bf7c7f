package dataplanetest

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"pgregory.net/rapid"
)

func modelFlows() []flow {
	return []flow{{
		name: "Model", says: "A hundred random sequences of programs: after each step those answer who must, nobody else, and open connections live", members: 4,
		needs: func() []service { return modelStart().services() },
		run: func(w *world, p *proxy) {
			w.Helper()
			asked := 0
			rapid.Check(w.T, func(t *rapid.T) {
				p.apply()
				s := modelStart()
				s.asked = &asked
				if err := s.play(w, p, t); err != nil {
					t.Fatal(err)
				}
			})
		},
	}}
}

// model is what is served, and so what must answer.
type model struct {
	ports   []*modelPort
	members map[lb.TenantID][]lb.Member
	health  lb.Verdicts
	open    []*conn
	// asked counts clients: each has a port of its own, so that none is taken for one that was there before.
	asked *int
}

// modelPort is one port; off: it is not in the Program.
type modelPort struct {
	service
	off bool
}

// modelCheck is never made: its verdicts are the model's.
var modelCheck = lb.Check{Kind: lb.CheckTCP, Port: echoPort, Interval: time.Hour, Timeout: time.Second, Rise: 1, Fall: 1}

func modelStart() *model {
	s := &model{health: lb.Verdicts{}, members: map[lb.TenantID][]lb.Member{}}
	for i, tenant := range []lb.TenantID{shop, "neighbour"} {
		s.members[tenant] = []lb.Member{inZone(m(1), "a"), inZone(m(2), "a"), inZone(m(3), "b"), inZone(m(4), "b")}
		for j, protocol := range []lb.Protocol{lb.TCP, lb.TCP, lb.UDP} {
			port := &modelPort{service: service{
				tenant: tenant, name: fmt.Sprintf("lb%d", j%2), at: vip(1+j%2, 80+i), protocol: protocol, port: echoPort, group: "nodes",
			}}
			port.pool.Check = modelCheck
			s.ports = append(s.ports, port)
		}
	}
	return s
}

func (s *model) services() []service {
	var out []service
	for _, p := range s.ports {
		if !p.off {
			p.members = s.members[p.tenant]
			out = append(out, p.service)
		}
	}
	return out
}

// play takes random steps, and looks after each of them.
func (s *model) play(w *world, p *proxy, t *rapid.T) error {
	defer func() {
		for _, c := range s.open {
			c.drop()
		}
	}()
	for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
		what := s.step(t)
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			what += ", " + s.step(t)
		}
		next := program(s.services()...)
		next.Health = lb.Health{modelCheck: maps.Clone(s.health)}
		if out := p.applyProgram(next).Outcome; len(out.Refused) > 0 {
			return fmt.Errorf("step %d (%s): refused: %v", step, what, out.Refused)
		}
		if err := s.look(w, next); err != nil {
			return fmt.Errorf("step %d (%s): %w", step, what, err)
		}
	}
	return s.counted(p)
}

// step changes something and says what.
func (s *model) step(t *rapid.T) string {
	tenant := rapid.SampledFrom([]lb.TenantID{shop, "neighbour"}).Draw(t, "tenant")
	port := s.ports[rapid.IntRange(0, len(s.ports)-1).Draw(t, "port")]
	n := rapid.IntRange(1, 4).Draw(t, "member")
	members := slices.Clone(s.members[tenant])
	at := slices.IndexFunc(members, func(o lb.Member) bool { return o.UID == m(n).UID })
	s.members[tenant] = members
	kind := rapid.SampledFrom([]string{"come or go", "drain", "weigh", "verdict", "port", "zone", "fail open", "sources", "hash"}).Draw(t, "kind")
	switch kind {
	case "come or go":
		if at < 0 {
			s.members[tenant] = append(members, inZone(m(n), "b"))
		} else {
			s.members[tenant] = slices.Delete(members, at, at+1)
		}
	case "drain":
		if at >= 0 {
			members[at].Draining = !members[at].Draining
		}
	case "weigh":
		if at >= 0 {
			members[at].Weight = rapid.IntRange(0, 3).Draw(t, "weight")
		}
	case "verdict":
		s.health[m(n).Address] = rapid.SampledFrom([]lb.Verdict{lb.Unchecked, lb.Healthy, lb.Unhealthy}).Draw(t, "verdict")
		return fmt.Sprintf("verdict on m%d: %s", n, s.health[m(n).Address])
	case "port":
		port.off = !port.off
	case "zone":
		port.pool.Zone = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone")
	case "fail open":
		port.pool.FailOpen = !port.pool.FailOpen
	case "sources":
		port.front.Sources = rapid.SampledFrom([][]netip.Prefix{nil, {netip.MustParsePrefix("10.2.0.0/16")}, {netip.MustParsePrefix("10.9.0.0/16")}}).Draw(t, "sources")
	case "hash":
		port.pool.Hash = rapid.SampledFrom([]lb.Hash{lb.HashFlow, lb.HashClientIP}).Draw(t, "hash")
	}
	return fmt.Sprintf("%s: m%d of %s, port %s", kind, n, tenant, port.at)
}

// look asks each port from several clients.
func (s *model) look(w *world, now *lb.Program) error {
	for _, p := range s.ports {
		may := p.answerers(now)
		if err := s.ask(w, p, may); err != nil {
			return fmt.Errorf("%s of %s, where %v may answer: %w", p.id().Socket(), p.id().Tenant, may, err)
		}
	}
	for _, c := range s.open {
		if err := c.echo(); err != nil {
			return fmt.Errorf("an open connection to %s: %w", c.member, err)
		}
	}
	return nil
}

// answerers are the members that may answer a new client of the port.
func (p *modelPort) answerers(now *lb.Program) (may []string) {
	from := client(0).Addr()
	allowed := len(p.front.Sources) == 0 || slices.ContainsFunc(p.front.Sources, func(s netip.Prefix) bool { return s.Contains(from) })
	if p.off || !allowed {
		return nil
	}
	snap := now.Tenants[p.id().Tenant]
	pool := snap.Pools[pool(p.service)]
	for _, m := range lb.Eligible(snap.Groups[pool.Group], pool, now.Health) {
		may = append(may, m.UID)
	}
	return may
}

func pool(s service) lb.PoolID {
	s.complete()
	return s.pool.ID
}

// ask opens some connections, or flows, one of which may stay open.
func (s *model) ask(w *world, p *modelPort, may []string) error {
	for i := range 4 {
		var who string
		var err error
		*s.asked++
		from := netip.AddrPortFrom(client(*s.asked/50000*4+i).Addr(), uint16(10000+*s.asked%50000))
		if p.protocol == lb.UDP {
			who, err = w.askOnce(from, p.at, may)
		} else {
			most := patience
			if len(may) == 0 {
				most = 200 * time.Millisecond
			}
			var c *conn
			if c, err = w.connect(from, p.at, most); err == nil {
				if who = c.member; i == 0 && len(s.open) < 20 {
					s.open = append(s.open, c)
				} else {
					c.drop()
				}
			}
		}
		switch {
		case err == nil && !slices.Contains(may, who):
			return fmt.Errorf("%s answered", who)
		case err != nil && len(may) > 0:
			return err
		case len(may) == 0:
			return nil // Once is enough where nobody may answer: silence takes time.
		}
	}
	return nil
}

// counted waits until the open connections of members that drain are counted; UDP flows may be counted with them.
func (s *model) counted(p *proxy) error {
	want := map[string]int64{}
	for tenant, members := range s.members {
		for _, m := range members {
			if m.Draining {
				want[string(tenant)+"/"+m.UID] = 0
			}
		}
	}
	for _, c := range s.open {
		tenant := map[int]lb.TenantID{80: shop, 81: "neighbour"}[c.RemoteAddr().(*net.TCPAddr).Port]
		key := string(tenant) + "/" + c.member
		if _, ok := want[key]; ok {
			want[key]++
		}
	}
	var got map[string]int64
	if wait(patience, func() bool {
		got = map[string]int64{}
		for tenant, of := range p.observe().Draining {
			for key, n := range of {
				if _, ok := want[string(tenant)+"/"+key.UID]; ok {
					got[string(tenant)+"/"+key.UID] = n
				}
			}
		}
		for key, n := range want {
			if got[key] < n {
				return false
			}
		}
		return true
	}) {
		return nil
	}
	return fmt.Errorf("open connections of draining members: %v, want %v", got, want)
}
