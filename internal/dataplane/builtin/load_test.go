package builtin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// users connect again and again, one new connection for each request, and count what fails.
type users struct {
	stop     chan struct{}
	wg       sync.WaitGroup
	requests atomic.Int64
	failed   atomic.Int64
	first    atomic.Pointer[error]
}

func startUsers(n int, where ...netip.AddrPort) *users {
	u := &users{stop: make(chan struct{})}
	for i := range n {
		u.wg.Go(func() {
			for {
				select {
				case <-u.stop:
					return
				default:
				}
				err := request(where[i%len(where)])
				u.requests.Add(1)
				if err != nil {
					u.failed.Add(1)
					u.first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	return u
}

func request(where netip.AddrPort) error {
	c, err := connect(where)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetLinger(0)
	return c.echoes()
}

func (u *users) end(t testing.TB, atLeast int64) {
	t.Helper()
	u.endBut(t, atLeast, 0)
}

// endBut lets some requests have failed.
func (u *users) endBut(t testing.TB, atLeast, allowed int64) {
	t.Helper()
	until(t, "enough requests", func() bool { return u.requests.Load() >= atLeast })
	close(u.stop)
	u.wg.Wait()
	if n := u.failed.Load(); n > allowed {
		t.Errorf("%d of %d requests failed, first: %v", n, u.requests.Load(), *u.first.Load())
	}
}

// TestThousandsOfMemberChangesUnderLoad changes members, weights, drains and
// verdicts as fast as it can, with dead members among them, while users
// connect. No request may fail, no connection break, no listener close.
func TestThousandsOfMemberChangesUnderLoad(t *testing.T) {
	const changes, fronts = 3000, 3
	port := freePort(t, "127.0.2.1", "127.0.2.2", "127.0.2.3", "127.0.2.4")
	var members []lb.Member
	for i := 1; i <= 6; i++ { // 5 and 6 don't listen
		m := memberAt(fmt.Sprintf("m%d", i), fmt.Sprintf("127.0.2.%d", i))
		members = append(members, m)
		if i <= 4 {
			listen(t, m.UID, at(m.Address.String(), port))
		}
	}
	check := lb.Check{Kind: lb.CheckTCP, Port: port}
	p := start(t, Options{ConnectAttempts: 3})
	services := func(rng *rand.Rand) []service {
		now := []lb.Member{members[0]} // The first stays, others come and go.
		for _, m := range members[1:] {
			switch rng.IntN(4) {
			case 0:
				continue
			case 1:
				m.Draining, m.DrainFor = true, 0
			case 2:
				m.Weight = 1 + rng.IntN(5)
			}
			now = append(now, m)
		}
		var out []service
		for i := range fronts {
			out = append(out, service{name: fmt.Sprintf("web-%d", i), group: "nodes", members: now, port: port,
				at: at(fmt.Sprintf("127.0.0.%d", i+1), port), pool: lb.Pool{Check: check, FailOpen: true}})
		}
		return out
	}
	rng := rand.New(rand.NewPCG(1, 2))
	first := services(rng)
	p.apply(first...)
	var lns []any
	for _, l := range p.now.Listeners {
		lns = append(lns, p.listeners[l.Socket].ln)
	}
	var held []*client
	for range 50 {
		held = append(held, mustConnect(t, first[0].at))
	}
	u := startUsers(4, first[0].at, first[1].at, first[2].at)
	for range changes {
		health := lb.Verdicts{}
		for _, m := range members[1:] {
			if rng.IntN(3) == 0 {
				health[m.Address] = lb.Unhealthy
			}
		}
		p.applyWith(lb.Health{check: health}, services(rng)...)
	}
	u.end(t, 2000)
	for i, c := range held {
		if err := c.echoes(); err != nil {
			t.Errorf("held connection %d: %v", i, err)
		}
	}
	for i, l := range p.now.Listeners {
		if p.listeners[l.Socket].ln != lns[i] {
			t.Errorf("listener %v was opened anew", l.Socket)
		}
	}
	t.Logf("%d requests beside %d changes", u.requests.Load(), changes)
}

func TestMemberDiesUnderLoad(t *testing.T) {
	web, m1, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	const n = 2
	u := startUsers(n, web.at)
	until(t, "requests run", func() bool { return u.requests.Load() > 100 })
	// Its ports close; what it has taken goes on. What its kernel has taken for it and it has not, it resets: one a user at most.
	m1.ln.Close()
	u.endBut(t, u.requests.Load()+1000, n)
	if n := p.suspected(netip.MustParseAddr("127.0.1.1")); n == 0 {
		t.Error("health was not told")
	}
}

func TestOneTenantsFrontendsComeAndGoBesideAnothersLoad(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	u := startUsers(2, web.at)
	other, impossible := web, web
	other.tenant, other.name, other.at = "other", "web", at("127.0.0.2", web.at.Port())
	impossible.tenant, impossible.name, impossible.at = "other", "impossible", at("192.0.2.1", web.at.Port())
	for range 200 {
		p.apply(web, other, impossible)
		mustConnect(t, other.at).Close()
		p.apply(web)
	}
	u.end(t, 500)
}

func TestApplyCostsNothingForFrontendsThatShareWhatChanges(t *testing.T) {
	web, _, _ := pair(t)
	web.group = "nodes"
	var all []service
	for i := range 300 {
		s := web
		s.name = fmt.Sprintf("web-%03d", i)
		s.at = at(fmt.Sprintf("127.0.%d.%d", 3+i/200, 1+i%200), web.at.Port())
		all = append(all, s)
	}
	p := start(t, Options{})
	p.apply(all...)
	if n := len(p.tables); n != 1 {
		t.Errorf("%d tables, want one for all", n)
	}
	before := p.now
	next := &lb.Program{Listeners: before.Listeners, Tenants: map[lb.TenantID]*lb.Snapshot{}}
	snap := *before.Tenants["tenant"]
	snap.Groups = map[lb.GroupID]*lb.Group{"nodes": {ID: "nodes", Members: draining(web, 0).members}}
	next.Tenants["tenant"] = &snap
	changes := lb.Diff(before, next)
	if _, err := p.Apply(context.Background(), next, changes); err != nil {
		t.Fatal(err)
	}
	onlyOn(t, all[0].at, "m2")
	onlyOn(t, all[299].at, "m2")
}

func TestCloseLetsConnectionsEnd(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	c := mustConnect(t, web.at)
	ended := make(chan error, 1)
	go func() { ended <- p.Close(context.Background()) }()
	until(t, "the listener is closed", func() bool {
		other, err := connect(web.at)
		if err == nil {
			other.Close()
		}
		return err != nil
	})
	if err := c.echoes(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("Close returned %v before the last connection ended", err)
	default:
	}
	c.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := p.Apply(context.Background(), p.now, lb.Changes{}); err == nil {
		t.Error("Apply after Close succeeded")
	}
}

func TestCloseCutsWhenItsTimeIsUp(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	c := mustConnect(t, web.at)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	c.mustBeCut(t)
}

func TestRecoverFindsNothingRunning(t *testing.T) {
	web, _, _ := pair(t)
	drift, err := New(Options{}).Recover(context.Background(), program(web))
	if err != nil || drift.Missing != 1 || drift.Foreign != 0 {
		t.Errorf("got %+v, %v", drift, err)
	}
}
