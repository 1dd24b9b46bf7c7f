package builtin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	if code == 0 {
		deadline := time.Now().Add(patience)
		for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%d goroutines are left over:\n%s", n-before, stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// plane is a data plane under test, with the Program that it serves.
type plane struct {
	testing.TB
	*Dataplane
	now *lb.Program

	mu       sync.Mutex
	suspects []netip.Addr
}

func start(t testing.TB, o Options) *plane {
	t.Helper()
	p := &plane{TB: t, now: nil}
	o.Suspect = func(a netip.Addr) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.suspects = append(p.suspects, a)
	}
	p.Dataplane = New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		p.Close(ctx)
	})
	return p
}

// suspected counts how often health was told of a; of any address if it is the zero one.
func (p *plane) suspected(a netip.Addr) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.suspects {
		if s == a || !a.IsValid() {
			n++
		}
	}
	return n
}

// apply serves what the services say, and nothing else.
func (p *plane) apply(services ...service) dataplane.Outcome {
	p.Helper()
	return p.applyWith(nil, services...)
}

func (p *plane) applyWith(h lb.Health, services ...service) dataplane.Outcome {
	p.Helper()
	next := program(services...)
	next.Health = h
	out, err := p.Apply(context.Background(), next, lb.Diff(p.now, next))
	if err != nil {
		p.Fatal(err)
	}
	p.now = next
	return out
}

// service is one frontend with a pool and a group of its own, unless it names them.
type service struct {
	tenant  lb.TenantID
	name    string
	at      netip.AddrPort
	port    uint16
	members []lb.Member
	group   lb.GroupID
	pool    lb.Pool
	front   lb.Frontend
	// protocol is TCP where it is not said.
	protocol lb.Protocol
}

func program(services ...service) *lb.Program {
	p := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}}
	for _, s := range services {
		if s.tenant == "" {
			s.tenant = "tenant"
		}
		snap := p.Tenants[s.tenant]
		if snap == nil {
			snap = &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{}}
			p.Tenants[s.tenant] = snap
		}
		if s.group == "" {
			s.group = lb.GroupID(s.name)
		}
		if s.protocol == "" {
			s.protocol = lb.TCP
		}
		f, pool := s.front, s.pool
		f.ID = lb.FrontendID{Tenant: s.tenant, LoadBalancer: s.name, Address: s.at.Addr(), Protocol: s.protocol, Port: s.at.Port()}
		f.Pool = lb.PoolID(s.name)
		pool.ID, pool.Group, pool.Port = f.Pool, s.group, s.port
		if pool.Hash == "" {
			pool.Hash = lb.HashFlow
		}
		snap.Frontends = append(snap.Frontends, &f)
		snap.Pools[pool.ID] = &pool
		snap.Groups[s.group] = &lb.Group{ID: s.group, Members: s.members}
		p.Listeners = append(p.Listeners, lb.Listener{Socket: f.ID.Socket(), Frontends: []lb.FrontendID{f.ID}})
	}
	return p
}

func memberAt(uid string, address string) lb.Member {
	return lb.Member{UID: uid, Name: uid, Address: netip.MustParseAddr(address), Weight: 1, Ready: true, DrainFor: lb.DrainUnset}
}

// freePort is a port that nobody listens on at any of the addresses.
func freePort(t testing.TB, addresses ...string) uint16 {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", net.JoinHostPort(addresses[0], "0"))
		if err != nil {
			t.Fatal(err)
		}
		port := ln.Addr().(*net.TCPAddr).AddrPort().Port()
		ln.Close()
		free := true
		for _, a := range addresses {
			other, err := net.Listen("tcp", at(a, port).String())
			if err != nil {
				free = false
				break
			}
			other.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func at(address string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(address), port)
}

// backend says its name to whoever connects, then echoes line by line.
type backend struct {
	name  string
	ln    net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

func listen(t testing.TB, name string, where netip.AddrPort) *backend {
	t.Helper()
	return listenWith(t, name, where, func(c net.Conn) {
		fmt.Fprintln(c, name)
		in := bufio.NewReader(c)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(c, line)
		}
	})
}

func listenWith(t testing.TB, name string, where netip.AddrPort, talk func(net.Conn)) *backend {
	t.Helper()
	ln, err := net.Listen("tcp", where.String())
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{name: name, ln: ln, conns: map[net.Conn]struct{}{}}
	b.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // A test leaves no files.
				runtime.Gosched()
				continue
			}
			b.mu.Lock()
			b.conns[c] = struct{}{}
			b.mu.Unlock()
			b.wg.Go(func() {
				defer func() {
					c.Close()
					b.mu.Lock()
					delete(b.conns, c)
					b.mu.Unlock()
				}()
				talk(c)
			})
		}
	})
	t.Cleanup(b.stop)
	return b
}

// stop dies as a node does: nobody listens, and open connections are reset.
func (b *backend) stop() {
	b.ln.Close()
	b.mu.Lock()
	for c := range b.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// client is a connection that has heard the name of its backend.
type client struct {
	*net.TCPConn
	in   *bufio.Reader
	name string
}

func connect(where netip.AddrPort) (*client, error) {
	c, err := net.DialTimeout("tcp", where.String(), patience)
	if err != nil {
		return nil, err
	}
	out := &client{TCPConn: c.(*net.TCPConn), in: bufio.NewReader(c)}
	c.SetDeadline(time.Now().Add(patience))
	name, err := out.in.ReadString('\n')
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("hearing the name: %w", err)
	}
	out.name = strings.TrimSpace(name)
	return out, nil
}

func mustConnect(t testing.TB, where netip.AddrPort) *client {
	t.Helper()
	c, err := connect(where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echoes says whether the connection still works.
func (c *client) echoes() error {
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	if err == nil && line != "hello\n" {
		return fmt.Errorf("got %q", line)
	}
	return err
}

// until waits until ok says so.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		timer := time.NewTimer(time.Millisecond)
		<-timer.C
	}
}

func drainingOf(o dataplane.Observation) (n int64) {
	for _, of := range o.Draining {
		for _, open := range of {
			n += open
		}
	}
	return n
}
