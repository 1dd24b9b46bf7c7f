package nftables_test

import (
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

func draining(after time.Duration) func(*lb.Member) {
	return func(m *lb.Member) { m.Draining, m.DrainFor = true, after }
}

func key(n int) lb.MemberKey { m := member(n, false); return m.Key() }

func webID() lb.FrontendID { return simple().Tenants["acme"].Frontends[0].ID }

// draining is the number of connections observed on a draining member.
func (w *world) draining(n int) int64 { return w.dp.Observe().Draining["acme"][key(n)] }

func TestDrainingMembersConnectionsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(simple(member(11, false)))
	a, b := w.mustDial("", vip), w.mustDial("", vip)
	w.apply(simple(member(11, false, draining(0)), member(12, false)))
	if w.draining(11) == 0 {
		t.Error("a member that drains seems to be gone before it was counted")
	}
	if got := w.spread("", vip, 10); got["10.2.0.12"] != 10 {
		t.Errorf("new connections go to %v", got)
	}
	w.eventually("two connections are counted", func() bool { return w.draining(11) == 2 })
	a.Close()
	w.eventually("one connection is counted", func() bool { return w.draining(11) == 1 })
	if err := b.echo(); err != nil {
		t.Error(err)
	}
	b.Close()
	w.eventually("none is left", func() bool { return w.draining(11) == 0 })
	select {
	case <-w.dp.Changed():
	default:
		t.Error("nobody was told")
	}
}

func TestDrainingMembersConnectionsAreCutInTime(t *testing.T) {
	for name, after := range map[string]func(p *lb.Program) *lb.Program{
		"draining": func(*lb.Program) *lb.Program {
			return simple(member(11, false, draining(time.Second)), member(12, false))
		},
		"removed": func(*lb.Program) *lb.Program {
			p := simple(member(12, false))
			p.Tenants["acme"].Pools["web"].DrainTimeout = time.Second
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(8080, 11, 12)
			p := simple(member(11, false))
			p.Tenants["acme"].Pools["web"].DrainTimeout = time.Second
			w.apply(p)
			s, idle := w.mustDial("", vip), w.mustDial("", vip)
			began, pace := time.Now(), time.NewTicker(10*time.Millisecond)
			defer pace.Stop()
			w.apply(after(p))
			for {
				err := s.echo()
				if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
					break
				}
				if err != nil {
					t.Fatalf("%v, want a reset", err)
				}
				if time.Since(began) > 10*time.Second {
					t.Fatal("the connection is not cut")
				}
				<-pace.C
			}
			if took := time.Since(began); took < 900*time.Millisecond || took > 3*time.Second {
				t.Errorf("cut after %v, want 1 s", took)
			}
			idle.SetReadDeadline(time.Now().Add(3 * time.Second))
			if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("an idle connection: %v, want a reset", err)
			}
			w.eventually("none is left", func() bool { return w.draining(11) == 0 })
		})
	}
}

// TestCutByTheMembersPacket: the client only listens, and learns of the cut by what the member sends.
func TestCutByTheMembersPacket(t *testing.T) {
	w := newWorld(t)
	l, err := w.members.Listen("tcp", "10.2.0.11:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			accepted <- err
			return
		}
		defer c.Close()
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for err == nil {
			_, err = io.WriteString(c, "news\n")
			<-pace.C
		}
		accepted <- err
	}()
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.apply(simple(member(11, false, draining(500*time.Millisecond))))
	s.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.Copy(io.Discard, s); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client: %v, want a reset", err)
	}
	select {
	case err := <-accepted:
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("the member: %v, want a reset", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the member is not told")
	}
}

func TestARemovedFrontendsConnectionsGoOn(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.apply(newProgram().done())
	closing := func() int64 { return w.dp.Observe().Closing[webID()] }
	if closing() == 0 {
		t.Error("a frontend with an open connection seems to be gone")
	}
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	if _, err := w.dial(w.client, "", vip); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a frontend that was removed: %v, want it refused", err)
	}
	s.Close()
	w.eventually("none is left", func() bool { return closing() == 0 })
	w.eventually("the table is empty", func() bool { return !w.elements() })
}

// elements says that our table has any.
func (w *world) elements() bool {
	out := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	return slotLists.MatchString(out) || elementLists.MatchString(out)
}

func TestAFrontendThatMovesToOtherTargetsLosesTheFormerInTime(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.serve(9090, 11)
	p := func(port uint16) *lb.Program {
		p := simple(member(11, false))
		p.Tenants["acme"].Pools["web"].Port = port
		p.Tenants["acme"].Pools["web"].DrainTimeout = time.Second
		return p
	}
	w.apply(p(8080))
	s := w.mustDial("", vip)
	w.apply(p(9090))
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	if n := len(w.dp.Observe().Closing); n > 0 {
		t.Error("a frontend that is served is said to close")
	}
	w.eventually("its connection is cut", func() bool { return s.echo() != nil })
	w.mustDial("", vip)
}

// TestCloseDoesNotWaitForAMassDrain: each connection that ends costs a request to the kernel.
func TestCloseDoesNotWaitForAMassDrain(t *testing.T) {
	w := newWorld(t)
	w.dp.Close(w.ctx)
	if n := w.dp.EndAfterClose(1000); n > 0 {
		t.Errorf("%d connections are ended after Close", n)
	}
}
