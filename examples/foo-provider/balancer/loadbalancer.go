package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// dialTimeout bounds a connection to a member, and a check.
const dialTimeout = 2 * time.Second

type loadBalancer struct {
	id, owner string
	every     time.Duration
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu        sync.Mutex
	spec      Spec
	listeners map[Port]net.Listener
	// told is what the members are to be, from when on; members is what they are.
	told    []Member
	due     *time.Timer
	members map[string]*member
	turn    int
	open    int64
}

type member struct {
	draining, healthy bool
	connections       map[net.Conn]bool
}

func newLoadBalancer(id, owner string, every time.Duration) *loadBalancer {
	ctx, cancel := context.WithCancel(context.Background())
	l := &loadBalancer{id: id, owner: owner, every: every, ctx: ctx, cancel: cancel, listeners: map[Port]net.Listener{}, members: map[string]*member{}}
	l.work.Go(l.check)
	return l
}

// listen has it listen as the spec says. Ports that stay are not touched.
func (l *loadBalancer) listen(s Spec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	opened := map[Port]net.Listener{}
	for _, p := range s.Ports {
		if l.listeners[p] != nil && l.spec.Address == s.Address {
			continue
		}
		listener, err := net.Listen("tcp", netip.AddrPortFrom(s.Address, p.Port).String())
		if err != nil {
			for _, o := range opened {
				err = errors.Join(err, o.Close())
			}
			return fmt.Errorf("listening: %w", err)
		}
		opened[p] = listener
	}
	for p, listener := range l.listeners {
		if !slices.Contains(s.Ports, p) || opened[p] != nil {
			listener.Close() // its error says only that it is closed
			delete(l.listeners, p)
		}
	}
	for p, listener := range opened {
		l.listeners[p] = listener
		l.work.Go(func() { l.accept(listener, p) })
	}
	l.spec = s
	return nil
}

func (l *loadBalancer) accept(from net.Listener, p Port) {
	for {
		c, err := from.Accept()
		if err != nil {
			return // closed
		}
		l.work.Go(func() { l.serve(c, p) })
	}
}

// serve carries one connection.
func (l *loadBalancer) serve(client net.Conn, p Port) {
	defer client.Close()
	l.mu.Lock()
	full := l.spec.MaxConnections > 0 && l.open >= l.spec.MaxConnections
	if !full {
		l.open++
	}
	l.mu.Unlock()
	if full {
		return
	}
	defer func() {
		l.mu.Lock()
		l.open--
		l.mu.Unlock()
	}()
	address, m := l.choose(client)
	if m == nil {
		return
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	target, err := dialer.DialContext(l.ctx, "tcp", hostPort(address, p.Target))
	if err != nil { // it is found unhealthy soon; this client has lost
		l.ended(m, client)
		return
	}
	carry(client, target)
	l.ended(m, client)
}

// choose takes the next healthy member in turn, any where all fail their checks, and counts the connection as its own from then on.
func (l *loadBalancer) choose(c net.Conn) (string, *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var serving, healthy []string
	for _, a := range slices.Sorted(maps.Keys(l.members)) {
		m := l.members[a]
		if !m.draining {
			serving = append(serving, a)
		}
		if !m.draining && m.healthy {
			healthy = append(healthy, a)
		}
	}
	usable := healthy
	if len(usable) == 0 {
		usable = serving
	}
	if len(usable) == 0 {
		return "", nil
	}
	l.turn++
	a := usable[l.turn%len(usable)]
	l.members[a].connections[c] = true
	return a, l.members[a]
}

func (l *loadBalancer) ended(m *member, c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(m.connections, c)
}

// carry copies both ways until both are done.
func carry(a, b net.Conn) {
	var both sync.WaitGroup
	one := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		half, ok := to.(*net.TCPConn)
		if err == nil && ok {
			err = half.CloseWrite()
		}
		if err != nil { // what is broken one way is of no use the other way
			a.Close()
			b.Close()
		}
	}
	both.Go(func() { one(b, a) })
	one(a, b)
	both.Wait()
	a.Close()
	b.Close()
}

// setMembers has them be as told after a delay. What is told again in the meantime changes nothing of when.
func (l *loadBalancer) setMembers(members []Member, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(members, l.told) {
		return
	}
	l.told = slices.Clone(members)
	if l.due != nil {
		l.due.Stop()
	}
	if delay == 0 {
		l.apply()
		return
	}
	l.due = time.AfterFunc(delay, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.apply()
	})
}

// apply makes members what they were told to be; l.mu is held. A member that is no more loses its connections.
func (l *loadBalancer) apply() {
	next := map[string]*member{}
	for _, t := range l.told {
		m := l.members[t.Address]
		if m == nil {
			m = &member{connections: map[net.Conn]bool{}}
		}
		m.draining = t.Draining
		next[t.Address] = m
	}
	for a, m := range l.members {
		if next[a] == nil {
			for c := range m.connections {
				c.Close()
			}
		}
	}
	l.members = next
}

// check connects to each member every so often.
func (l *loadBalancer) check() {
	ticker := time.NewTicker(l.every)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		all, ports := maps.Clone(l.members), l.spec.Ports
		l.mu.Unlock()
		var asked sync.WaitGroup
		for a, m := range all {
			if len(ports) == 0 {
				continue
			}
			asked.Go(func() {
				dialer := net.Dialer{Timeout: dialTimeout}
				c, err := dialer.DialContext(l.ctx, "tcp", hostPort(a, ports[0].Target))
				if err == nil {
					c.Close()
				}
				l.mu.Lock()
				m.healthy = err == nil
				l.mu.Unlock()
			})
		}
		asked.Wait()
	}
}

// info returns it as it is.
func (l *loadBalancer) info() Info {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Info{ID: l.id, Owner: l.owner, Spec: l.spec}
	out.Spec.Ports = slices.Clone(l.spec.Ports)
	for a, m := range l.members {
		out.Members = append(out.Members, Seen{Address: a, Applied: true, Draining: m.draining, Healthy: m.healthy, Connections: int64(len(m.connections))})
	}
	for _, t := range l.told {
		if l.members[t.Address] == nil {
			out.Members = append(out.Members, Seen{Address: t.Address})
		}
	}
	slices.SortFunc(out.Members, func(a, b Seen) int {
		if a.Address < b.Address {
			return -1
		}
		return 1
	})
	return out
}

func (l *loadBalancer) close() {
	l.cancel()
	l.mu.Lock()
	if l.due != nil {
		l.due.Stop()
	}
	for _, listener := range l.listeners {
		listener.Close()
	}
	l.told = nil
	l.apply()
	l.mu.Unlock()
	l.work.Wait()
}
