package nftables_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/nftables"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

// world is a client, this host with the data plane, and a host with the members behind it:
//
//	client 10.1.0.2, fd01::2 ── host 10.1.0.1 10.2.0.1 ── members 10.2.0.11, fd02::11 and on
type world struct {
	t                     *testing.T
	client, host, members *netns.Namespace
	dp                    *nftables.Dataplane
	program               *lb.Program
	options               nftables.Options
	ctx                   context.Context
	log                   *bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := netns.New()
	t.Cleanup(n.Close)
	w := &world{t: t, client: n.Namespace("client"), host: n.Namespace("host"), members: n.Namespace("members")}
	for _, ns := range []*netns.Namespace{w.client, w.host, w.members} {
		ns.Set("ipv6/conf/default/accept_dad", "0") // else link-local addresses can't be spoken from for the first seconds
	}
	w.host.Link("clients", w.client, "host")
	w.host.Link("members", w.members, "host")
	w.client.Address("host", "10.1.0.2/24", "10.1.0.3/24", "10.1.0.4/24", "fd01::2/64", "fd01::3/64")
	w.host.Address("clients", "10.1.0.1/24", "fd01::1/64")
	w.host.Address("members", "10.2.0.1/24", "fd02::1/64")
	for i := range 5 {
		w.members.Address("host", fmt.Sprintf("10.2.0.%d/24", 11+i), fmt.Sprintf("fd02::%d/64", 11+i))
	}
	w.client.Route("0.0.0.0/0", "10.1.0.1")
	w.client.Route("::/0", "fd01::1")
	w.members.Route("0.0.0.0/0", "10.2.0.1")
	w.members.Route("::/0", "fd02::1")
	w.host.Set("ipv4/ip_forward", "1")
	w.host.Set("ipv6/conf/all/forwarding", "1")
	if err := n.Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w.ctx, w.log = ctx, &bytes.Buffer{}
	w.options.Logger = slog.New(slog.NewTextHandler(&lockedWriter{to: w.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	t.Cleanup(func() {
		if t.Failed() {
			rules := slotLists.ReplaceAllString(w.run(w.host, "nft", "list", "ruleset"), "$1")
			rules, _, _ = strings.Cut(rules, "chain nobody")
			t.Logf("log:\n%s\nrules:\n%s", w.log, rules)
		}
	})
	w.start()
	return w
}

type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// start begins a data plane on the host.
func (w *world) start() {
	w.t.Helper()
	w.startIn(w.host)
}

func (w *world) startIn(ns *netns.Namespace) {
	w.t.Helper()
	err := ns.Do(func() (err error) {
		w.dp, err = nftables.New(w.options)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	dp := w.dp
	w.t.Cleanup(func() { dp.Close(context.Background()) })
}

// restart lets another process follow; what it applies must be whole again.
func (w *world) restart() dataplane.Drift {
	w.t.Helper()
	w.dp.Close(w.ctx)
	w.start()
	d, err := w.dp.Recover(w.ctx, w.program)
	if err != nil {
		w.t.Fatal(err)
	}
	w.program = nil
	return d
}

func (w *world) apply(p *lb.Program) dataplane.Outcome {
	w.t.Helper()
	o, err := w.dp.Apply(w.ctx, p, lb.Diff(w.program, p))
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	w.program = p
	return o
}

// run is a command's output in a namespace.
func (w *world) run(ns *netns.Namespace, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := ns.Start(cmd); err != nil {
		w.t.Errorf("%s: %v", name, err)
		return ""
	}
	if err := cmd.Wait(); err != nil {
		w.t.Errorf("%s %s: %v: %s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// eventually waits until what is true.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			w.t.Fatalf("not within 20 s: %s", what)
		}
		select {
		case <-w.ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// serve has the members numbered answer on a TCP port: with their address and their client's, then with what they get.
func (w *world) serve(port int, members ...int) {
	w.t.Helper()
	for _, m := range members {
		for _, format := range []string{"10.2.0.%d", "fd02::%d"} {
			a := fmt.Sprintf(format, m)
			l, err := w.members.Listen("tcp", net.JoinHostPort(a, fmt.Sprint(port)))
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
						fmt.Fprintf(c, "%s %s\n", a, host)
						io.Copy(c, c)
					}()
				}
			}()
		}
	}
}

// serveUDP has the members answer each datagram with their address.
func (w *world) serveUDP(port int, members ...int) {
	w.t.Helper()
	for _, m := range members {
		for _, format := range []string{"10.2.0.%d", "fd02::%d"} {
			a := fmt.Sprintf(format, m)
			c, err := w.members.ListenPacket("udp", net.JoinHostPort(a, fmt.Sprint(port)))
			if err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { c.Close() })
			go func() {
				b := make([]byte, 2000)
				for {
					_, from, err := c.ReadFrom(b)
					if err != nil {
						return
					}
					c.WriteTo([]byte(a), from)
				}
			}()
		}
	}
}

// session is a client's connection.
type session struct {
	net.Conn
	member, seen string
}

func (w *world) dial(ns *netns.Namespace, from, to string) (*session, error) {
	d := net.Dialer{Timeout: 2 * time.Second, KeepAlive: -1}
	if from != "" {
		if _, err := netip.ParseAddr(from); err == nil {
			from = net.JoinHostPort(from, "0")
		}
		a, err := net.ResolveTCPAddr("tcp", from)
		if err != nil {
			return nil, err
		}
		d.LocalAddr = a
	}
	c, err := ns.Dial(w.ctx, d, "tcp", to)
	if err != nil {
		return nil, err
	}
	s := &session{Conn: c}
	c.SetReadDeadline(time.Now().Add(2 * time.Second))
	line := make([]byte, 0, 80)
	for !bytes.HasSuffix(line, []byte("\n")) {
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			c.Close()
			return nil, fmt.Errorf("reading the greeting: %w", err)
		}
		line = append(line, b...)
	}
	c.SetReadDeadline(time.Time{})
	fmt.Sscan(string(line), &s.member, &s.seen)
	w.t.Cleanup(func() { c.Close() })
	return s, nil
}

func (w *world) mustDial(from, to string) *session {
	w.t.Helper()
	s, err := w.dial(w.client, from, to)
	if err != nil {
		w.t.Fatalf("dialing %s: %v", to, err)
	}
	return s
}

// echo sends and awaits the same.
func (s *session) echo() error {
	s.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := s.Write([]byte("ping")); err != nil {
		return err
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(s, b); err != nil {
		return err
	}
	if string(b) != "ping" {
		return fmt.Errorf("got %q", b)
	}
	return nil
}

// spread dials n times and counts who answers.
func (w *world) spread(from, to string, n int) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for range n {
		s := w.mustDial(from, to)
		out[s.member]++
		s.Close()
	}
	return out
}

// ask sends a datagram and returns who answers, "" if nobody.
func ask(c net.Conn) string {
	b := make([]byte, 100)
	for range 4 {
		if _, err := c.Write([]byte("?")); err != nil {
			continue
		}
		c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		if n, err := c.Read(b); err == nil {
			return string(b[:n])
		}
	}
	return ""
}

func (w *world) dialUDP(to string) net.Conn {
	w.t.Helper()
	c, err := w.client.Dial(w.ctx, net.Dialer{}, "udp", to)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

// program building

type programmer struct {
	p *lb.Program
}

func newProgram() *programmer {
	return &programmer{&lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{}}}
}

func (b *programmer) tenant(t lb.TenantID) *lb.Snapshot {
	s := b.p.Tenants[t]
	if s == nil {
		s = &lb.Snapshot{Pools: map[lb.PoolID]*lb.Pool{}, Groups: map[lb.GroupID]*lb.Group{}}
		b.p.Tenants[t] = s
	}
	return s
}

func member(n int, six bool, edit ...func(*lb.Member)) lb.Member {
	m := lb.Member{UID: fmt.Sprintf("uid-%d", n), Name: fmt.Sprintf("m%d", n), Address: netip.AddrFrom4([4]byte{10, 2, 0, byte(n)}), Weight: 1, Ready: true, DrainFor: lb.DrainUnset}
	if six {
		m.Address = netip.MustParseAddr(fmt.Sprintf("fd02::%d", n))
	}
	for _, e := range edit {
		e(&m)
	}
	return m
}

// group sets a group of a tenant.
func (b *programmer) group(t lb.TenantID, id lb.GroupID, members ...lb.Member) *programmer {
	b.tenant(t).Groups[id] = &lb.Group{ID: id, Members: members}
	return b
}

func (b *programmer) pool(t lb.TenantID, id lb.PoolID, g lb.GroupID, port uint16, edit ...func(*lb.Pool)) *programmer {
	p := &lb.Pool{ID: id, Group: g, Port: port, Hash: lb.HashFlow, FailOpen: true, DrainTimeout: 5 * time.Minute}
	for _, e := range edit {
		e(p)
	}
	b.tenant(t).Pools[id] = p
	return b
}

func (b *programmer) frontend(t lb.TenantID, name string, proto lb.Protocol, at string, pool lb.PoolID, edit ...func(*lb.Frontend)) *programmer {
	a := netip.MustParseAddrPort(at)
	f := &lb.Frontend{ID: lb.FrontendID{Tenant: t, LoadBalancer: name, Address: a.Addr(), Protocol: proto, Port: a.Port()}, Pool: pool}
	for _, e := range edit {
		e(f)
	}
	b.tenant(t).Frontends = append(b.tenant(t).Frontends, f)
	return b
}

// health sets verdicts on addresses.
func (b *programmer) health(c lb.Check, v lb.Verdicts) *programmer {
	if b.p.Health == nil {
		b.p.Health = lb.Health{}
	}
	b.p.Health[c] = v
	return b
}

func (b *programmer) done() *lb.Program {
	for _, s := range b.p.Tenants {
		sortFrontends(s.Frontends)
		for _, f := range s.Frontends {
			b.p.Listeners = append(b.p.Listeners, lb.Listener{Socket: f.ID.Socket(), Frontends: []lb.FrontendID{f.ID}})
		}
	}
	sortListeners(b.p.Listeners)
	return b.p
}

// load has nft take rules.
func (w *world) load(rules string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "rules.nft")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run(w.host, "nft", "-f", file)
}

// output is what a command wrote so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// background starts a command that ends with the test.
func (w *world) background(ns *netns.Namespace, name string, args ...string) *output {
	w.t.Helper()
	out := &output{}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := ns.Start(cmd); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return out
}

// namespacePath is a path to a namespace that holds while the test runs: by a process in it.
func namespacePath(t *testing.T, ns *netns.Namespace) string {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := ns.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}
