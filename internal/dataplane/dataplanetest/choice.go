package dataplanetest

import (
	"fmt"
	"net/netip"

	"fairlead.dev/fairlead/internal/lb"
)

func choiceFlows() []flow {
	return []flow{
		{
			name: "Spread", says: "New connections spread over the members by their weights", members: 3,
			needs: func() []service { return []service{web(weighing(m(1), 1), weighing(m(2), 3), weighing(m(3), 0))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2), m(3)))
				shares(w, vip(1, 80), map[string]float64{"m1": 1. / 3, "m2": 1. / 3, "m3": 1. / 3})
				p.apply(web(weighing(m(1), 1), weighing(m(2), 3), weighing(m(3), 0)))
				shares(w, vip(1, 80), map[string]float64{"m1": .25, "m2": .75})
				p.apply(web(weighing(m(1), 0), weighing(m(2), 0)))
				w.only(vip(1, 80), 1, 2)
			},
		},
		{
			name: "Zone", says: "Members of the proxy's own zone first, while one of them may", members: 3,
			needs: func() []service { return []service{zoned("a", m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				p.apply(zoned("a", m(1), m(2), m(3)))
				w.only(vip(1, 80), 1, 2)
				p.apply(zoned("a", draining(m(1)), m(2), m(3)))
				w.only(vip(1, 80), 2)
				p.apply(zoned("a", draining(m(1)), draining(m(2)), m(3)))
				w.only(vip(1, 80), 3)
				p.apply(zoned("c", m(1), m(2), m(3)))
				w.only(vip(1, 80), 1, 2, 3)
			},
		},
		{
			name: "Affinity", says: "A client's address keeps its member, whatever happens to other members", members: 4,
			needs: func() []service { return []service{sticky(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				p.apply(sticky(m(1), m(2), m(3)))
				first := membersOf(w, vip(1, 80), 150)
				kept(w, "at rest", first, membersOf(w, vip(1, 80), 150), "")
				for range 3 {
					p.apply(sticky(m(1), m(2)))
					kept(w, "m3 gone", first, membersOf(w, vip(1, 80), 150), "m3")
					p.apply(sticky(m(1), m(2), m(3)))
					kept(w, "m3 back", first, membersOf(w, vip(1, 80), 150), "")
				}
				p.apply(sticky(m(1), m(2), draining(m(3))))
				kept(w, "m3 drains", first, membersOf(w, vip(1, 80), 150), "m3")
				p.apply(sticky(m(1), m(2), m(3), m(4)))
				for i, who := range membersOf(w, vip(1, 80), 150) {
					if who != first[i] && who != "m4" {
						w.Errorf("client %d went from %s to %s when m4 came", i, first[i], who)
					}
				}
			},
		},
		{
			name: "SecondProxy", says: "Another proxy sends the same client, and the same flow, to the same member", members: 3,
			needs: func() []service { return []service{sticky(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				other := w.start(w.host())
				other.recover(nil)
				for name, s := range map[string]service{"by client": sticky(m(1), m(2), m(3)), "by flow": web(m(1), m(2), m(3))} {
					p.apply(s)
					other.apply(s)
					w.via(w.hosts[0])
					first := membersOf(w, vip(1, 80), 100)
					w.via(w.hosts[1])
					kept(w, name, first, membersOf(w, vip(1, 80), 100), "")
				}
			},
		},
	}
}

func zoned(zone string, members ...lb.Member) service {
	for i := range members {
		members[i] = inZone(members[i], map[string]string{"m1": "a", "m2": "a", "m3": "b"}[members[i].UID])
	}
	s := web(members...)
	s.pool.Zone = zone
	return s
}

func sticky(members ...lb.Member) service {
	s := web(members...)
	s.pool.Hash = lb.HashClientIP
	return s
}

// shares asserts how 600 connections spread, give or take a third.
func shares(w *world, to netip.AddrPort, want map[string]float64) {
	w.Helper()
	const n = 600
	got := w.spread(to, n)
	for who, share := range want {
		if is := float64(got[who]) / n; is < share*2/3 || is > share*4/3 {
			w.Errorf("%s got %.2f, want %.2f: %v", who, is, share, got)
		}
	}
	if len(got) != len(want) {
		w.Errorf("spread %v, want %v", got, want)
	}
}

// membersOf connects from n client addresses, each from a port of its own, and returns who answers each.
func membersOf(w *world, to netip.AddrPort, n int) []string {
	w.Helper()
	out := make([]string, n)
	_, err := tally(n, func(i int) (string, error) {
		c, err := w.connect(netip.AddrPortFrom(client(i).Addr(), uint16(20000+i)), to, patience)
		if err != nil {
			return "", fmt.Errorf("client %d: %w", i, err)
		}
		defer c.drop()
		out[i] = c.member
		return c.member, nil
	})
	w.must(err)
	return out
}

// kept asserts that all clients are where they were, but those of the one that is gone, which are elsewhere.
func kept(w *world, when string, was, is []string, gone string) {
	w.Helper()
	moved := 0
	for i := range was {
		if (was[i] == gone) == (is[i] == was[i]) {
			moved++
		}
	}
	if moved > 0 {
		w.Errorf("%s: %d of %d clients are not at the member where they should be", when, moved, len(was))
	}
}
