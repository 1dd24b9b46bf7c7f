package builtin

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"golang.org/x/sys/unix"
)

// sent are parts as another process gets them: files of their own.
func sent(t testing.TB, parts []dataplane.Part) []dataplane.Part {
	t.Helper()
	out := make([]dataplane.Part, len(parts))
	for i, p := range parts {
		fd, err := unix.FcntlInt(uintptr(p.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = dataplane.Part{What: p.What, FD: fd}
	}
	return out
}

// succeed starts a data plane with the same Program, to which p hands over.
func (p *plane) succeed(services ...service) *plane {
	p.Helper()
	next := start(p.TB, Options{})
	next.Inherit(sent(p.TB, p.Listeners()))
	next.apply(services...)
	next.Adopt(sent(p.TB, p.Suspend()))
	p.Yield()
	next.Remain(p.Open())
	return next
}

// upper counts UDP questions that got no answer, each client one flow for good.
type upper struct {
	stop        chan struct{}
	wg          sync.WaitGroup
	asked, lost atomic.Int64
	moved       atomic.Int64
}

func startUpper(t *testing.T, n int, s service) *upper {
	u := &upper{stop: make(chan struct{})}
	for range n {
		a := newAsker(t, s.at)
		u.wg.Go(func() {
			last := ""
			for {
				select {
				case <-u.stop:
					return
				default:
				}
				name := a.once(2 * time.Second)
				u.asked.Add(1)
				if name == "" {
					u.lost.Add(1)
				} else if last != "" && last != name {
					u.moved.Add(1)
				}
				last = name
			}
		})
	}
	return u
}

func TestHandOverLosesNothing(t *testing.T) {
	web, _, _ := pair(t)
	dns, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(web, dns)
	held := mustConnect(t, web.at)
	u, d := startUsers(4, web.at), startUpper(t, 4, dns)
	const times = 20
	for i := range times {
		until(t, "traffic flows", func() bool {
			return u.requests.Load() > int64(50*(i+1)) && d.asked.Load() > int64(50*(i+1))
		})
		next := p.succeed(web, dns)
		if n := len(next.Observe().Draining) + len(next.Observe().Closing); n > 0 {
			t.Errorf("%d drain although nothing does", n)
		}
		p = next
	}
	u.end(t, u.requests.Load()+200)
	close(d.stop)
	d.wg.Wait()
	if d.lost.Load() > 0 || d.moved.Load() > 0 {
		t.Errorf("of %d datagrams %d were lost, and %d flows moved", d.asked.Load(), d.lost.Load(), d.moved.Load())
	}
	held.SetDeadline(time.Now().Add(patience))
	if err := held.echoes(); err != nil {
		t.Errorf("connection from before the first hand-over: %v", err)
	}
	t.Logf("%d requests and %d datagrams beside %d hand-overs", u.requests.Load(), d.asked.Load(), times)
}

// TestRestartWithoutHandOverIsNoticed is what the former would find if nothing were handed over.
func TestRestartWithoutHandOverIsNoticed(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	u := startUsers(4, web.at)
	until(t, "some requests fail", func() bool {
		until(t, "traffic flows", func() bool { return u.requests.Load() > 50 })
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			p.Close(context.Background())
		}()
		<-closed
		p = start(t, Options{})
		p.apply(web)
		return u.failed.Load() > 0
	})
	close(u.stop)
	u.wg.Wait()
}

// A client that the kernel has accepted and nobody yet is not lost with the process that could have.
func TestHandOverKeepsTheQueue(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	next := start(t, Options{})
	next.Inherit(sent(t, p.Listeners())) // not applied: it accepts nothing
	p.Suspend()
	p.Yield()
	waiting := make(chan error, 1)
	go func() {
		c, err := connect(web.at)
		if err == nil {
			c.Close()
		}
		waiting <- err
	}()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case err := <-waiting:
		t.Fatalf("somebody answered, or refused: %v", err)
	case <-timer.C:
	}
	next.apply(web)
	next.Adopt(nil)
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

func TestHandOverThatFailsIsUndone(t *testing.T) {
	web, _, _ := pair(t)
	dns, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(web, dns)
	a := newAsker(t, dns.at)
	a.mustHear(t)
	if n := len(p.Suspend()); n != 1 {
		t.Errorf("%d flows, want 1", n)
	}
	if name := a.once(silence); name != "" {
		t.Errorf("%s answered while datagrams are held", name)
	}
	p.Resume()
	a.mustHear(t)
	mustConnect(t, web.at)
}

func TestSuccessorCountsWhatThePredecessorHasOpen(t *testing.T) {
	web, _, _ := pair(t)
	key := web.members[0].Key()
	p := start(t, Options{})
	p.apply(web)
	c := on(t, web.at, "m1")
	id := p.now.Listeners[0].Frontends[0]
	next := p.succeed(web)
	next.apply(draining(web, 0))
	if n := next.draining(key); n < 1 {
		t.Errorf("%d open on a member that drains, want those of the predecessor", n)
	}
	next.apply()
	if n := next.Observe().Closing[id]; n < 1 {
		t.Errorf("%d open at a frontend that is gone, want those of the predecessor", n)
	}
	// The predecessor follows the Program: its time is up there too.
	p.apply(draining(web, time.Millisecond))
	c.mustBeCut(t)
	p.apply()
	until(t, "the predecessor has cut", func() bool {
		for _, m := range p.Open().Members {
			if m.Key == key {
				return false
			}
		}
		return true
	})
	next.Remain(dataplane.Open{})
	if o := next.Observe(); len(o.Draining)+len(o.Closing) > 0 {
		t.Errorf("the predecessor has gone, and %+v is left", o)
	}
}

func TestAfterTheHandOverOnlyTheSuccessorListens(t *testing.T) {
	web, _, _ := pair(t)
	more := web
	more.name, more.at = "more", at("127.0.0.1", freePort(t, "127.0.0.1"))
	p := start(t, Options{})
	p.apply(web)
	next := p.succeed(web)
	p.apply(web, more)
	if _, err := connect(more.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v from a frontend that came after the hand-over, want it refused", err)
	}
	next.apply(web, more)
	mustConnect(t, more.at)
	next.apply(more)
	if _, err := connect(web.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want it refused: the successor has closed it", err)
	}
}

func TestInheritedSocketsWithoutUseAreClosed(t *testing.T) {
	web, _, _ := pair(t)
	p := start(t, Options{})
	p.apply(web)
	p.succeed()
	if _, err := connect(web.at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want it refused", err)
	}
}

func TestHandedFlowsOfADrainingMemberStayCounted(t *testing.T) {
	s, _, _ := dns(t)
	key := s.members[0].Key()
	p := start(t, Options{})
	p.apply(s)
	a := flowOn(t, s.at, "m1")
	s = draining(s, 0)
	p.apply(s)
	next := p.succeed(s)
	if n := next.draining(key); n < 1 {
		t.Errorf("%d flows drain", n)
	}
	if name := a.mustHear(t); name != "m1" {
		t.Errorf("went to %s", name)
	}
	until(t, "nothing is left in the predecessor", func() bool { o := p.Open(); return o.Empty() })
}
