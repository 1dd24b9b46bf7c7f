package dataplanetest

import (
	"fmt"
	"net/netip"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func udpFlows() []flow {
	return []flow{
		{
			name: "UDPNoMembers", says: "A UDP port without members answers nothing", members: 1,
			needs: func() []service { return []service{dns()} },
			run: func(w *world, p *proxy) {
				p.apply(dns())
				c := w.packetsFrom(noSource, vip(1, 53))
				w.silent(c)
				p.apply(dns(m(1)))
				w.answers(c)
				p.apply()
				w.silent(w.packetsFrom(noSource, vip(1, 53)))
			},
		},
		{
			name: "UDP", says: "UDP: flows spread over the members, and each stays on its member", members: 3,
			needs: func() []service { return []service{dns(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				p.apply(dns(m(1), m(2), m(3)))
				spreadsUDP(w, vip(1, 53))
			},
		},
		{
			name: "UDPIPv6", says: "UDP over IPv6", members: 3,
			needs: dns6,
			run: func(w *world, p *proxy) {
				p.apply(dns6()...)
				spreadsUDP(w, vip6(1, 53))
			},
		},
		{
			name: "UDPSources", says: "UDP: only clients in sourceRanges are served", members: 1,
			needs: func() []service { return []service{dnsFor("10.2.0.0/24")} },
			run: func(w *world, p *proxy) {
				p.apply(dnsFor("10.2.0.0/24"))
				w.answers(w.packetsFrom(client(7), vip(1, 53)))
				w.silent(w.packetsFrom(client(300), vip(1, 53)))
				w.silent(w.packetsFrom(from(clientAddress, 0), vip(1, 53)))
			},
		},
		{
			name: "UDPDeadMember", says: "UDP: flows of a dead member go to another with the next datagram", members: 3,
			needs: func() []service { return []service{checkedDNS(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				s := checkedDNS(m(1), m(2), m(3))
				p.apply(s)
				flows := flowsOf(w, vip(1, 53), 60)
				w.members[1].die()
				w.until("the check finds m1 dead", func() bool { return p.verdict(s.pool.Check, m(1)) == lb.Unhealthy })
				moved := 0
				for c, was := range flows {
					who := was
					if was == "m1" { // Its member is known to be dead: no more than the datagram on its way may be lost.
						who, _ = w.answers(c)
						moved++
					} else {
						who, _ = w.answers(c)
					}
					if (was == "m1") == (who == was) {
						w.Errorf("a flow of %s is answered by %s", was, who)
					}
				}
				w.members[1].run()
				w.until("the check finds m1 alive", func() bool { return p.verdict(s.pool.Check, m(1)) == lb.Healthy })
				w.until("new flows of m1", func() bool {
					who, _ := w.answers(w.packetsFrom(noSource, vip(1, 53)))
					return who == "m1"
				})
				if moved == 0 {
					w.Error("no flow was on m1")
				}
			},
		},
		{
			name: "UDPDrain", says: "UDP: flows of a draining member stay until its drain is over, then go to another; new ones go elsewhere", members: 3,
			needs: func() []service { return []service{dns(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				p.apply(dns(m(1), m(2), m(3)))
				flows := flowsOf(w, vip(1, 53), 60)
				leaving := draining(m(1))
				leaving.DrainFor = 0
				p.apply(dns(leaving, m(2), m(3)))
				stay(w, flows, nil)
				for c, who := range flowsOf(w, vip(1, 53), 30) {
					if who == "m1" {
						w.Errorf("a new flow (%s) went to a draining member", c.LocalAddr())
					}
				}
				if p.draining(shop, m(1)) == 0 {
					w.until("its flows are counted", func() bool { return p.draining(shop, m(1)) > 0 })
				}
				leaving.DrainFor = time.Millisecond
				p.apply(dns(leaving, m(2), m(3)))
				for c, was := range flows {
					if was == "m1" {
						w.until("its flows are elsewhere", func() bool { who, _ := w.answers(c); return who != "m1" })
					}
				}
				w.until("m1 is gone", func() bool { return p.draining(shop, m(1)) == 0 })
			},
		},
	}
}

func dns6() []service {
	s := dns(m6(1), m6(2), m6(3))
	s.at = vip6(1, 53)
	return []service{s}
}

func dnsFor(sources string) service {
	s := dns(m(1))
	s.front.Sources = []netip.Prefix{netip.MustParsePrefix(sources)}
	return s
}

// checkedDNS has its members checked over TCP.
func checkedDNS(members ...lb.Member) service {
	s := dns(members...)
	s.pool.Check = quickTCP
	return s
}

// flowsOf opens that many flows, each with the member that answers.
func flowsOf(w *world, to netip.AddrPort, n int) map[*packets]string {
	w.Helper()
	out := map[*packets]string{}
	for range n {
		c := w.packetsFrom(noSource, to)
		out[c], _ = w.answers(c)
	}
	return out
}

// stay asserts that flows are where they were; those of which moves says so may be elsewhere.
func stay(w *world, flows map[*packets]string, moves func(was string) bool) {
	w.Helper()
	for c, was := range flows {
		if who, _ := w.answers(c); who != was && (moves == nil || !moves(was)) {
			w.Errorf("a flow moved from %s to %s", was, who)
		}
	}
}

func spreadsUDP(w *world, to netip.AddrPort) {
	w.Helper()
	flows := flowsOf(w, to, 90)
	counts := map[string]int{}
	for _, who := range flows {
		counts[who]++
	}
	for n := 1; n <= 3; n++ {
		if got := counts[fmt.Sprintf("m%d", n)]; got < 10 {
			w.Errorf("%d of 90 flows on m%d: %v", got, n, counts)
		}
	}
	for range 5 {
		stay(w, flows, nil)
	}
}
