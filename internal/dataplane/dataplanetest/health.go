package dataplanetest

import (
	"net/http"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

var (
	quickTCP  = lb.Check{Kind: lb.CheckTCP, Port: echoPort, Interval: 100 * time.Millisecond, Timeout: 300 * time.Millisecond, Rise: 1, Fall: 2}
	quickHTTP = lb.Check{
		Kind: lb.CheckHTTP, Port: healthPort, Path: "/healthz", Interval: 100 * time.Millisecond, Timeout: 300 * time.Millisecond, Rise: 1, Fall: 2,
	}
)

// checked is a service with three members and that check.
func checked(c lb.Check) service {
	s := web(m(1), m(2), m(3))
	s.pool.Check = c
	return s
}

// flapping is a port of TCP and one of UDP.
func flapping() []service {
	out := []service{web(m(1), m(2)), dns(m(1), m(2))}
	for i := range out {
		out[i].pool.Check, out[i].group = quickTCP, "nodes"
	}
	return out
}

func healthFlows() []flow {
	return []flow{
		{
			name: "DeadMember", says: "A member that dies gets no more connections; when it is back, it gets its share", members: 3,
			needs: func() []service { return []service{checked(quickTCP)} },
			run: func(w *world, p *proxy) {
				p.apply(checked(quickTCP))
				w.settles(vip(1, 80), 1, 2, 3)
				other := w.dialTo(vip(1, 80), 2)
				for range 2 {
					w.members[1].die()
					w.settles(vip(1, 80), 2, 3)
					w.members[1].run()
					w.settles(vip(1, 80), 1, 2, 3)
				}
				w.works("another member's connection", other)
			},
		},
		{
			name: "Unnoticed", says: "Nobody notices a dead member even before a check does: the connection goes to another", members: 3,
			needs: func() []service { return []service{web(m(1), m(2), m(3))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2), m(3)))
				w.members[1].die()
				w.only(vip(1, 80), 2, 3)
			},
			without: func(w *world, p *proxy) {
				p.apply(checked(quickTCP))
				w.members[1].die()
				w.settles(vip(1, 80), 2, 3)
			},
		},
		{
			name: "HangingMember", says: "A member that takes connections and answers nothing is left out, by its check over HTTP", members: 3,
			needs: func() []service { return []service{checked(quickHTTP)} },
			run: func(w *world, p *proxy) {
				p.apply(checked(quickHTTP))
				w.settles(vip(1, 80), 1, 2, 3)
				w.members[1].hang()
				w.until("the check finds it", func() bool { return p.verdict(quickHTTP, m(1)) == lb.Unhealthy })
				w.settles(vip(1, 80), 2, 3)
				w.members[1].resume()
				w.settles(vip(1, 80), 1, 2, 3)
			},
		},
		{
			name: "VanishedMember", says: "A member whose host vanishes from the network is left out, and comes back", members: 3,
			needs: func() []service { return []service{checked(quickTCP)} },
			run: func(w *world, p *proxy) {
				p.apply(checked(quickTCP))
				w.settles(vip(1, 80), 1, 2, 3)
				w.members[1].vanish()
				w.until("the check finds it", func() bool { return p.verdict(quickTCP, m(1)) == lb.Unhealthy })
				w.settles(vip(1, 80), 2, 3)
				w.members[1].appear()
				w.settles(vip(1, 80), 1, 2, 3)
			},
		},
		{
			name: "FlappingMember", says: "A member that fails its check for a moment loses no datagram and no connection of those who come after", members: 2,
			needs: func() []service { return flapping() },
			run: func(w *world, p *proxy) {
				asked := 10000
				for range 30 {
					for _, v := range []lb.Verdict{lb.Unhealthy, lb.Healthy} {
						next := program(flapping()...)
						next.Health = lb.Health{quickTCP: {m(1).Address: v, m(2).Address: lb.Healthy}}
						p.applyProgram(next)
					}
					var conns []*conn
					for range 40 {
						asked++
						conns = append(conns, w.dial(vip(1, 80)))
						if _, err := w.askOnce(from(clientAddress, asked), vip(1, 53), []string{"m1", "m2"}); err != nil {
							w.Fatalf("a datagram: %v", err)
						}
					}
					w.works("a connection", conns...)
				}
			},
		},
		{
			name: "AllFail", says: "When all members fail their check, failOpen decides: all are used, or clients are reset", members: 3,
			needs: func() []service { return []service{checked(quickHTTP)} },
			run: func(w *world, p *proxy) {
				for n := 1; n <= 3; n++ {
					w.members[n].status.Store(http.StatusServiceUnavailable)
				}
				s := checked(quickHTTP)
				p.apply(s)
				w.until("all fail", func() bool {
					for n := 1; n <= 3; n++ {
						if p.verdict(quickHTTP, m(n)) != lb.Unhealthy {
							return false
						}
					}
					return true
				})
				w.until("nobody answers", func() bool {
					c, err := w.connect(noSource, vip(1, 80), patience)
					if err == nil {
						c.drop()
					}
					return err != nil
				})
				w.turnedAway(noSource, vip(1, 80))
				s.pool.FailOpen = true
				p.apply(s)
				w.only(vip(1, 80), 1, 2, 3)
				w.members[2].status.Store(http.StatusOK)
				w.settles(vip(1, 80), 2)
			},
		},
	}
}
