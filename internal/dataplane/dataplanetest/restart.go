package dataplanetest

import (
	"context"

	"fairlead.dev/fairlead/internal/lb"
)

func restartFlows() []flow {
	return []flow{
		{
			name: "Crash", says: "The proxy's process is killed and started again: no request fails, no open connection is lost", members: 3,
			needs: func() []service { return []service{page(m(1), m(2))} },
			run: func(w *world, p *proxy) {
				p.apply(page(m(1), m(2)), open())
				w.judged(func(context.Context) error {
					for range 3 {
						p = p.crash(page(m(1), m(2)), open())
					}
					return nil
				})
				p.serves()
			},
			without: func(w *world, p *proxy) {
				p.apply(page(m(1), m(2)), open())
				c := w.dial(open().at)
				p = p.crash(page(m(1), m(2)), open())
				if c.echo() == nil {
					w.Error("the connection lives: say so")
				}
				w.dial(open().at)
				p.serves()
			},
		},
		{
			name: "Upgrade", says: "A planned restart: no request fails, no open connection is lost, UDP flows stay, and drains are counted on", members: 3,
			needs: func() []service { return []service{page(m(1), m(2)), open2(m(1)), dns(m(2), m(3))} },
			run:   upgrades,
		},
		{
			name: "LostProxy", says: "A proxy's host is lost and another one gets its traffic: open connections whose members see the client go on", members: 2,
			needs: keepingClients,
			run: func(w *world, p *proxy) {
				other := w.start(w.host())
				other.recover(nil)
				for _, each := range []*proxy{p, other} {
					each.apply(keepingClients()...)
				}
				conns := []*conn{w.dialFrom(client(1), vip(1, 80)), w.dialFrom(client(2), vip(1, 80)), w.dialFrom(client6(1), vip6(1, 80))}
				w.hosts[0].ns.Down("front")
				w.hosts[0].ns.Down("back")
				w.via(w.hosts[1])
				for _, m := range w.members {
					m.routeBy(w.hosts[1])
				}
				w.works("a connection from before", conns...)
				sends(w, conns[0], 1<<20)
				w.only(vip(1, 80), 1, 2)
			},
		},
		{
			name: "Drift", says: "What changed while the proxy was down is in effect once it is up, and so is what it missed of its own", members: 3,
			needs: func() []service { return []service{web(m(1), m(2)), open()} },
			run: func(w *world, p *proxy) {
				p.apply(web(m(1), m(2)), open())
				last := program(web(m(1), m(2)), open())
				p.kill()
				p = w.start(w.hosts[0])
				p.recover(last)
				p.apply(web(m(3)))
				w.only(vip(1, 80), 3)
				w.unserved(noSource, open().at)
				p.kill()
				p = w.start(w.hosts[0])
				if d := p.recover(nil); d.Missing != 0 {
					w.Errorf("%d frontends are missing although none is known of", d.Missing)
				}
				p.apply(web(m(1)))
				w.only(vip(1, 80), 1)
			},
		},
	}
}

// crash kills the process, starts another in its place and lets it go on with the same services.
func (p *proxy) crash(services ...service) *proxy {
	p.w.Helper()
	p.kill()
	next := p.w.start(p.on)
	next.recover(program(services...))
	next.apply(services...)
	return next
}

// serves asserts that a process after another is a proxy like any: it can change what it serves.
func (p *proxy) serves() {
	p.w.Helper()
	p.apply(web(m(3)))
	p.w.only(vip(1, 80), 3)
	p.w.unserved(noSource, open().at)
}

// open2 is a service for connections that stay.
func open2(first ...lb.Member) service {
	s := open()
	s.members, s.group = append(first, m(2)), "open"
	return s
}

func upgrades(w *world, p *proxy) {
	plain := []service{page(m(1), m(2)), open2(m(1)), dns(m(2), m(3))}
	p.apply(plain...)
	c, other := w.dialTo(open2().at, 1), w.dialTo(open2().at, 2)
	flows := flowsOf(w, dns().at, 40)
	old := p
	w.judged(func(context.Context) error {
		for range 3 {
			p = p.successor(plain...)
			stay(w, flows, nil)
			w.works("a connection from before", c, other)
			w.dial(open2().at).drop()
		}
		return nil
	})
	// Its target drains for all that the tenant has.
	drains := []service{page(draining(m(1)), m(2)), open2(draining(m(1))), dns(m(2), m(3))}
	p.apply(drains...)
	handsOver := p.heritable()
	counted := func() int64 {
		if handsOver { // The first process follows the hub until its last connection has ended, and says what it has open.
			old.apply(drains...)
			p.ask("Remain", old.open(), &Nothing{})
		}
		return p.draining(shop, m(1))
	}
	w.only(open2().at, 2)
	w.until("the connection from before is counted, and no other", func() bool { return counted() == 1 })
	w.works("a connection from before", c, other)
	c.drop()
	w.until("it is counted no more", func() bool { return counted() == 0 })
}
