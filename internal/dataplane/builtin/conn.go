package builtin

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a client's connection and, once there is one, its way on to a member.
type conn struct {
	client *sock
	from   netip.AddrPort
	front  *frontend
	// inFront and inMember keep it in the lists of those two.
	inFront, inMember tie
	// active is when bytes last moved, while idle connections are to be closed.
	active atomic.Int64

	// dead: both ends are closed, or will be as soon as there are two.
	dead   atomic.Bool
	mu     sync.Mutex
	target *sock
}

// serve carries one client from accept to end.
func (d *Dataplane) serve(l *listener, fd int, from netip.AddrPort) {
	defer d.running.Done()
	client, err := newSock(fd)
	if err != nil {
		return
	}
	c := &conn{client: client, from: clientOf(from)}
	c.inFront.of, c.inMember.of = c, c
	for c.front = l.front.Load(); c.front == nil || !c.front.admit(&c.inFront); {
		next := l.front.Load()
		if next == c.front { // It has retired and none took its place.
			client.reset()
			return
		}
		c.front = next
	}
	defer c.front.dismiss(&c.inFront)
	config := c.front.config.Load()
	if !config.allows(c.from.Addr()) {
		d.metrics.refuse(c.front.id.Tenant, notAllowed)
		client.reset()
		return
	}
	c.front.metrics.accepted.Inc()

	m := d.connect(c, c.from, config.pool)
	if m == nil {
		client.reset()
		return
	}
	defer m.dismiss(&c.inMember)
	c.front.metrics.open.Inc()
	defer c.front.metrics.open.Dec()
	d.relay(c, m, config.IdleTimeout)
}

// clientOf is a client's address as Frontend.Sources and hashes know it.
func clientOf(a netip.AddrPort) netip.AddrPort {
	if a.Addr().Is4In6() {
		return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	return a
}

func (c *conn) over() bool         { return c.dead.Load() }
func (c *conn) through() *frontend { return c.front }

// reach connects to a member, and says there who is proxied.
func (c *conn) reach(d *Dataplane, m *member, to netip.AddrPort) (result string) {
	if !m.admit(&c.inMember) {
		return declined
	}
	target, err := dialTCP(to, d.o.ConnectTimeout)
	if err == nil {
		if version := c.front.config.Load().ProxyProtocol; version != 0 {
			err = sayProxied(target, version, c.from, netip.AddrPortFrom(c.front.id.Address, c.front.id.Port))
		}
		if err == nil {
			if c.reaches(target) {
				return connected
			}
			m.dismiss(&c.inMember)
			return declined
		}
		target.reset()
	}
	m.dismiss(&c.inMember)
	return d.judge(to, err)
}

// reaches has c go on to target; false if c was cut meanwhile, target is closed then.
func (c *conn) reaches(target *sock) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead.Load() {
		target.reset()
		return false
	}
	c.target = target
	return true
}

// cut resets both ends: neither shall take what it has for the whole.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead.Store(true)
	c.client.reset()
	if c.target != nil {
		c.target.reset()
	}
}

// finish closes both ends after all has been said.
func (c *conn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead.Store(true)
	c.client.Close()
	c.target.Close()
}

// watchIdle closes c once no byte has moved for limit; stop ends the watch.
func (c *conn) watchIdle(limit time.Duration) (stop func()) {
	c.active.Store(moment())
	var mu sync.Mutex
	var timer *time.Timer
	check := func() {
		mu.Lock()
		defer mu.Unlock()
		if left := limit - time.Duration(moment()-c.active.Load()); left > 0 {
			timer.Reset(left)
			return
		}
		c.finish()
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(limit, check)
	return func() { timer.Stop() }
}
