package dataplanetest

import (
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func drainFlows() []flow {
	return []flow{
		{
			name: "Drain", says: "A draining member's open connections live on and are counted; new ones go elsewhere", members: 2,
			needs: func() []service { return []service{web(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2)))
				a, b, other := w.dialTo(vip(1, 80), 1), w.dialTo(vip(1, 80), 1), w.dialTo(vip(1, 80), 2)
				p.apply(web(draining(m(1)), m(2)))
				w.only(vip(1, 80), 2)
				w.until("two connections are counted", func() bool { return p.draining(shop, m(1)) == 2 })
				w.works("a draining member's connection", a, b, other)
				was := p.observed().Changes
				a.Close()
				w.until("one connection is counted", func() bool { return p.draining(shop, m(1)) == 1 })
				w.works("a draining member's last connection", b)
				b.Close()
				w.until("m1 is gone", func() bool { return p.draining(shop, m(1)) == 0 })
				if is := p.observed().Changes; is == was {
					w.Error("Changed said nothing")
				}
				w.works("another member's connection", other)
			},
		},
		{
			name: "DrainCut", says: "What still drains is cut when the member's or the LoadBalancer's time is over, and nothing else", members: 2,
			needs: func() []service { return []service{web(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				for _, own := range []time.Duration{300 * time.Millisecond, lb.DrainUnset} {
					s := web(m(1), m(2))
					s.pool.DrainTimeout = map[time.Duration]time.Duration{lb.DrainUnset: 300 * time.Millisecond}[own]
					p.apply(s)
					c, other := w.dialTo(vip(1, 80), 1), w.dialTo(vip(1, 80), 2)
					leaving := draining(m(1))
					leaving.DrainFor = own
					s.members = []lb.Member{leaving, m(2)}
					p.apply(s)
					w.works("a connection before its time", c)
					w.cut("the connection's end", c)
					w.until("m1 is gone", func() bool { return p.draining(shop, m(1)) == 0 })
					w.works("another member's connection", other)
					w.only(vip(1, 80), 2)
				}
			},
		},
		{
			name: "DrainTakenBack", says: "A drain that is taken back cuts nothing", members: 2,
			needs: func() []service { return []service{web(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2)))
				c := w.dialTo(vip(1, 80), 1)
				leaving := draining(m(1))
				leaving.DrainFor = 300 * time.Millisecond
				p.apply(web(leaving, m(2)))
				over := time.NewTimer(3 * leaving.DrainFor)
				p.apply(web(m(1), m(2)))
				w.only(vip(1, 80), 1, 2)
				<-over.C
				w.works("the connection after its time", c)
				w.until("nobody drains", func() bool { return len(p.observe().Draining[shop]) == 0 })
			},
		},
		{
			name: "RemovedMember", says: "A member that is removed without draining keeps its open connections, for the LoadBalancer's drain time", members: 2,
			needs: func() []service { return []service{web(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				s := web(m(1), m(2))
				p.apply(s)
				c := w.dialTo(vip(1, 80), 1)
				s.members = s.members[1:]
				p.apply(s)
				w.only(vip(1, 80), 2)
				w.works("a removed member's connection", c)
				w.until("it is counted", func() bool { return p.draining(shop, m(1)) == 1 })
				s.pool.DrainTimeout = 50 * time.Millisecond
				p.apply(s)
				w.cut("the connection's end", c)
				w.until("m1 is gone", func() bool { return p.draining(shop, m(1)) == 0 })
			},
		},
		{
			name: "RemovedFrontend", says: "A removed port's open connections live on for the LoadBalancer's drain time; nobody else's are touched", members: 2,
			needs: func() []service { return []service{web(m(1), m(2)), open()} },
			run: func(w *world, p *proxy) {
				s := web(m(1), m(2))
				s.pool.DrainTimeout = time.Second
				p.apply(s, open())
				c, other := w.dial(vip(1, 80)), w.dial(open().at)
				p.apply(open())
				removed := time.Now()
				w.unserved(noSource, vip(1, 80))
				w.works("a removed port's connection", c)
				w.until("it is counted", func() bool { return p.observe().Closing[s.id()] == 1 || time.Since(removed) > s.pool.DrainTimeout })
				if time.Since(removed) > s.pool.DrainTimeout {
					w.Error("it was never counted")
				}
				w.cut("the connection's end", c)
				w.until("the port is gone", func() bool { return len(p.observe().Closing) == 0 })
				w.works("another port's connection", other)
			},
		},
		{
			name: "MovedFrontend", says: "A port that moves to other members takes new connections there at once", members: 3,
			needs: func() []service { return []service{web(m(1))} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1)))
				c := w.dial(vip(1, 80))
				s := web(m(2))
				s.group = "others"
				for range 5 {
					p.apply(s)
					w.only(vip(1, 80), 2)
					p.apply(web(m(1)))
					w.only(vip(1, 80), 1)
				}
				s.port = otherPort
				p.apply(s)
				w.only(vip(1, 80), 2)
				w.works("the connection from before", c)
			},
		},
	}
}
