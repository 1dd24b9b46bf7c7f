package builtin

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// pair is a service with two members that run.
func pair(t *testing.T) (web service, m1, m2 *backend) {
	port := freePort(t, "127.0.1.1", "127.0.1.2", "127.0.0.1")
	m1, m2 = listen(t, "m1", at("127.0.1.1", port)), listen(t, "m2", at("127.0.1.2", port))
	return service{
		name: "web", at: at("127.0.0.1", port), port: port,
		members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")},
	}, m1, m2
}

// on connects until there is a connection to the member named.
func on(t *testing.T, where netip.AddrPort, name string) *client {
	t.Helper()
	for range 1000 {
		if c := mustConnect(t, where); c.name == name {
			return c
		}
	}
	t.Fatalf("no connection to %s", name)
	return nil
}

// onlyOn says that new connections go to the member named alone.
func onlyOn(t *testing.T, where netip.AddrPort, name string) {
	t.Helper()
	for range 30 {
		c := mustConnect(t, where)
		if c.name != name {
			t.Fatalf("went to %s, want %s only", c.name, name)
		}
		c.Close()
	}
}

func draining(web service, drainFor time.Duration) service {
	web.members = append([]lb.Member(nil), web.members...)
	web.members[0].Draining, web.members[0].DrainFor = true, drainFor
	return web
}

func removed(web service) service {
	web.members = web.members[1:]
	return web
}

// mustBeCut waits for the reset.
func (c *client) mustBeCut(t *testing.T) {
	t.Helper()
	if _, err := c.in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

func (p *plane) draining(key lb.MemberKey) int64 { return p.Observe().Draining["tenant"][key] }

func TestDrainingMemberKeepsItsConnectionsUntilTheyEnd(t *testing.T) {
	web, _, _ := pair(t)
	key := web.members[0].Key()
	p := start(t, Options{})
	p.apply(web)
	c := on(t, web.at, "m1")
	if n := drainingOf(p.Observe()); n != 0 {
		t.Errorf("%d drain although no member does", n)
	}
	p.apply(draining(web, 0))
	onlyOn(t, web.at, "m2")
	if p.draining(key) == 0 {
		t.Error("its open connections are not counted")
	}
	if err := c.echoes(); err != nil {
		t.Fatal(err)
	}
	select { // Forget what was said so far.
	case <-p.Changed():
	default:
	}
	was := p.draining(key)
	c.Close()
	<-p.Changed()
	until(t, "it is one less", func() bool { return p.draining(key) == was-1 })
}

func TestDrainingMemberIsCutAfterDrainFor(t *testing.T) {
	for _, test := range []struct {
		name string
		next func(service) service
		pool time.Duration
	}{
		{"its own DrainFor", func(s service) service { return draining(s, 50*time.Millisecond) }, time.Hour},
		{"the pool's DrainTimeout", func(s service) service { return draining(s, lb.DrainUnset) }, 50 * time.Millisecond},
		{"removed, the pool's DrainTimeout", removed, 50 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			web, _, _ := pair(t)
			web.pool.DrainTimeout = test.pool
			key := web.members[0].Key()
			p := start(t, Options{})
			p.apply(web)
			c, other := on(t, web.at, "m1"), on(t, web.at, "m2")
			p.apply(test.next(web))
			if p.draining(key) == 0 {
				t.Error("an open connection is not counted")
			}
			c.mustBeCut(t)
			until(t, "m1 is gone", func() bool { return p.draining(key) == 0 })
			if err := other.echoes(); err != nil {
				t.Errorf("the other member's connection: %v", err)
			}
		})
	}
}

func TestLaterBoundCountsFromTheDrain(t *testing.T) {
	web, _, _ := pair(t)
	key := web.members[0].Key()
	p := start(t, Options{})
	p.apply(web)
	c := on(t, web.at, "m1")
	p.apply(draining(web, 0))
	p.apply(draining(web, time.Nanosecond))
	c.mustBeCut(t)
	until(t, "m1 is gone", func() bool { return p.draining(key) == 0 })
}

func TestPoolsNewDrainTimeoutReachesWhatDrainsAlready(t *testing.T) {
	web, _, _ := pair(t)
	web.pool.DrainTimeout = time.Hour
	p := start(t, Options{})
	p.apply(web)
	c := on(t, web.at, "m1")
	p.apply(draining(web, lb.DrainUnset))
	web.pool.DrainTimeout = time.Nanosecond
	p.apply(draining(web, lb.DrainUnset))
	c.mustBeCut(t)
}

func TestUndrainCancelsTheCut(t *testing.T) {
	for name, leave := range map[string]func(service) service{
		"draining": func(s service) service { return draining(s, 300*time.Millisecond) },
		"removed":  removed,
	} {
		t.Run(name, func(t *testing.T) {
			web, _, _ := pair(t)
			web.pool.DrainTimeout = 300 * time.Millisecond
			p := start(t, Options{})
			p.apply(web)
			c := on(t, web.at, "m1")
			p.apply(leave(web))
			cut := time.NewTimer(400 * time.Millisecond)
			p.apply(web)
			if n := drainingOf(p.Observe()); n != 0 {
				t.Errorf("%d connections are said to drain", n)
			}
			on(t, web.at, "m1")
			<-cut.C
			if err := c.echoes(); err != nil {
				t.Errorf("cut all the same: %v", err)
			}
		})
	}
}

func TestMemberIsCountedWhileItIsDialled(t *testing.T) {
	web, _, _ := pair(t)
	web.members = web.members[:1]
	key := web.members[0].Key()
	p := start(t, Options{})
	p.apply(web)
	p.Dataplane.mu.Lock()
	m := p.groups[groupKey{"tenant", "web"}].members[key]
	p.Dataplane.mu.Unlock()
	c := &conn{front: p.frontends[p.now.Listeners[0].Frontends[0]]}
	c.inMember.of = c
	if !m.admit(&c.inMember) {
		t.Fatal("not admitted")
	}
	p.apply(draining(web, 0))
	if n := p.draining(key); n != 1 {
		t.Errorf("%d open while a connection is on its way, want 1", n)
	}
	if m.admit(&tie{}) {
		t.Error("a draining member took a connection")
	}
	m.dismiss(&c.inMember)
	if n := p.draining(key); n != 0 {
		t.Errorf("%d open, want none", n)
	}
}

func TestCountsAreOverAllPoolsOfATenantAndOfNoOther(t *testing.T) {
	web, _, _ := pair(t)
	shop, other := web, web
	shop.name, shop.group, web.group = "shop", "nodes", "nodes"
	shop.at = at("127.0.0.1", freePort(t, "127.0.0.1"))
	other.tenant, other.at = "other", at("127.0.0.1", freePort(t, "127.0.0.1"))
	p := start(t, Options{})
	all := func(change func(service) service) {
		p.apply(change(web), change(shop), other)
	}
	all(func(s service) service { return s })
	var clients []*client
	for _, s := range []service{web, shop, other} {
		clients = append(clients, on(t, s.at, "m1"))
	}
	all(func(s service) service { return draining(s, 0) })
	key := web.members[0].Key()
	if n := p.draining(key); n < 2 {
		t.Errorf("%d open, want those of both pools", n)
	}
	if n := len(p.Observe().Draining["other"]); n != 0 {
		t.Errorf("%d members of the other tenant drain", n)
	}
	onlyOn(t, web.at, "m2")
	onlyOn(t, shop.at, "m2")
	on(t, other.at, "m1")
	for _, c := range clients {
		if err := c.echoes(); err != nil {
			t.Error(err)
		}
	}
}

func TestRemovedFrontendRefusesAndItsConnectionsLiveOn(t *testing.T) {
	web, _, _ := pair(t)
	web.pool.DrainTimeout = 200 * time.Millisecond
	p := start(t, Options{})
	p.apply(web)
	id := p.now.Listeners[0].Frontends[0]
	c := mustConnect(t, web.at)
	p.apply()
	if _, err := connect(web.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want refused", err)
	}
	if n := p.Observe().Closing[id]; n != 1 {
		t.Errorf("%d closing, want 1", n)
	}
	if err := c.echoes(); err != nil {
		t.Errorf("cut at once: %v", err)
	}
	c.mustBeCut(t)
	until(t, "the frontend is gone", func() bool { return len(p.Observe().Closing) == 0 })
}

func TestRebornFrontendServesAtOnce(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	c := mustConnect(t, web.at)
	p.apply()
	out := p.apply(web)
	if len(out.Refused) != 0 {
		t.Fatalf("refused: %v", out.Refused)
	}
	if n := len(p.Observe().Closing); n != 0 {
		t.Errorf("%d closing although the frontend is back", n)
	}
	mustConnect(t, web.at)
	if err := c.echoes(); err != nil {
		t.Error(err)
	}
	p.apply()
	if n := p.Observe().Closing[lb.FrontendID{Tenant: "tenant", LoadBalancer: "web", Address: web.at.Addr(), Protocol: lb.TCP, Port: web.at.Port()}]; n != 2 {
		t.Errorf("%d closing, want both the old and the new one's", n)
	}
}

func TestSocketGoesFromOneLoadBalancerToAnother(t *testing.T) {
	web, _, _ := pair(t)
	a, z := web, web
	a.name, z.name = "a", "z"
	a.members, z.members = web.members[:1], web.members[1:]
	p := start(t, Options{})
	p.apply(z)
	onlyOn(t, web.at, "m2")
	ln := p.listeners[p.now.Listeners[0].Socket].ln
	for range 20 {
		p.apply(a)
		onlyOn(t, web.at, "m1")
		p.apply(z)
		onlyOn(t, web.at, "m2")
	}
	if p.listeners[p.now.Listeners[0].Socket].ln != ln {
		t.Error("the socket was opened anew")
	}
}

func TestAnotherTargetPortDrainsTheFormer(t *testing.T) {
	web, _, _ := pair(t)
	web.members = web.members[:1]
	web.pool.DrainTimeout = 100 * time.Millisecond
	p := start(t, Options{})
	p.apply(web)
	c := mustConnect(t, web.at)
	next := web
	next.port = freePort(t, "127.0.1.1")
	listen(t, "m1 at its new port", at("127.0.1.1", next.port))
	p.apply(next)
	onlyOn(t, web.at, "m1 at its new port")
	if n := len(p.Observe().Closing); n != 0 {
		t.Errorf("%d closing: the frontend is served", n)
	}
	c.mustBeCut(t)
}
