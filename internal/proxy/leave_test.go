package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/lb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leave is what `fairlead proxy leave` does.
func (s *site) leave(timeout time.Duration, change func(*LeaveOptions)) error {
	o := LeaveOptions{
		Name: "edge-1", StateDir: s.dir, Timeout: timeout, Hub: s.hub,
		NewDataplane: func(name string) (dataplane.Dataplane, error) {
			if name != builtin.Name {
				s.t.Errorf("data plane %q is to be emptied", name)
			}
			return builtin.New(builtin.Options{}), nil
		},
		NewBuilder: func(pool string, dp dataplane.Dataplane) Builder {
			return build.New(build.Options{ProxyPool: pool, Check: dp.Check})
		},
		Logger: slog.New(slog.NewTextHandler(lines{s.t}, nil)),
	}
	if change != nil {
		change(&o)
	}
	return Leave(s.t.Context(), o)
}

func forced(o *LeaveOptions) { o.Force = true }

// says is the phase and the reason that the hub hears.
func (s *site) says() (phase v1alpha1.ProxyPhase, reason string) {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	px := s.hub.proxies["edge-1"]
	if c := meta.FindStatusCondition(px.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		reason = c.Reason
	}
	return px.Status.Phase, reason
}

func (s *site) mustSay(phase v1alpha1.ProxyPhase, reason string) {
	s.t.Helper()
	if p, r := s.says(); p != phase || r != reason {
		s.t.Errorf("the hub hears phase %q, %s; want %q, %s", p, r, phase, reason)
	}
}

// hold opens a connection that is relayed.
func (s *site) hold(p *process) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.tcp.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	s.until("the connection is relayed", func() bool { o := p.o.Dataplane.(*builtin.Dataplane).Open(); return !o.Empty() })
	return c
}

func isCut(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the connection cut", err)
	}
}

func (s *site) noFile() {
	s.t.Helper()
	if _, err := os.Stat(filepath.Join(s.dir, "edge-1.last-good")); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("the last-good file is there (%v)", err)
	}
}

// serving is a site whose process serves and reports.
func serving(t *testing.T) (*site, *process) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	return s, p
}

func TestALeavingProxyLetsConnectionsEnd(t *testing.T) {
	s, p := serving(t)
	held := s.hold(p)
	left := make(chan error, 1)
	go func() { left <- s.leave(time.Minute, nil) }()
	s.until("new connections are refused", func() bool { return s.answers() != nil })
	s.until("the hub hears that it leaves", func() bool {
		phase, reason := s.says()
		return phase == v1alpha1.ProxyStarting && reason == ReasonLeaving
	})
	s.hub.mu.Lock()
	if through := s.hub.proxies["edge-1"].Status.Through; through != (v1alpha1.Through{}) {
		t.Errorf("while it leaves it is through %+v", through)
	}
	s.hub.mu.Unlock()
	s.noFile()
	if !errors.Is(ended(p), errRuns) {
		t.Error("it has ended with an open connection")
	}
	// Nobody may take over now.
	next := s.startBlind(nil)
	if err := <-next.ended; err == nil || !strings.Contains(err.Error(), "leaves") {
		t.Errorf("one who takes over from a proxy that leaves: %v", err)
	}
	held.Close()
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)

	// The next start of that name registers anew, and serves.
	again := s.start(nil)
	s.writes(again)
	if err := s.answers(); err != nil {
		t.Error(err)
	}
}

func TestALeavingProxyCutsWhenItsTimeIsUp(t *testing.T) {
	s, p := serving(t)
	held := s.hold(p)
	if err := s.leave(100*time.Millisecond, nil); err != nil {
		t.Fatal(err)
	}
	isCut(t, held)
	s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)
}

// What an older process has open goes before the proxy has left.
func TestALeavingProxyTakesItsElderAlong(t *testing.T) {
	s, elder := serving(t)
	held := s.hold(elder)
	next := s.start(nil)
	s.writes(next)
	if !errors.Is(ended(elder), errRuns) {
		t.Fatal("the elder has ended")
	}
	if err := s.leave(100*time.Millisecond, nil); err != nil {
		t.Fatal(err)
	}
	s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)
	if o := elder.o.Dataplane.(*builtin.Dataplane).Open(); !o.Empty() {
		t.Errorf("the proxy has left, and its elder has open %+v", o)
	}
	isCut(t, held)
	if err := <-elder.ended; err != nil {
		t.Error(err)
	}
}

func TestNobodyLeavesUnheard(t *testing.T) {
	s, p := serving(t)
	held := s.hold(p)
	s.hub.leave()
	if err := s.leave(time.Minute, nil); !strings.Contains(errorText(err), "--force") {
		t.Errorf("the hub is away: %v", err)
	}
	if err := s.answers(); err != nil {
		t.Errorf("it was refused, and yet: %v", err)
	}
	s.until("it goes on to serve what is open", func() bool { o := p.o.Dataplane.(*builtin.Dataplane).Open(); return !o.Empty() })

	if err := s.leave(0, forced); err != nil {
		t.Errorf("forced: %v", err)
	}
	isCut(t, held)
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	s.hub.comeBack()
	if phase, _ := s.says(); phase != v1alpha1.ProxyServing {
		t.Errorf("phase %q, though the hub was away", phase)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Where no process runs, leaving does it all by itself.
func TestAProxyThatDoesNotRunLeaves(t *testing.T) {
	s, p := serving(t)
	p.stop()
	if err := <-p.ended; err != nil {
		t.Fatal(err)
	}
	s.mustSay(v1alpha1.ProxyServing, ReasonServing)
	s.hub.leave()
	if err := s.leave(time.Second, nil); !strings.Contains(errorText(err), "--force") {
		t.Errorf("the hub is away: %v", err)
	}
	s.hub.comeBack()
	if err := s.leave(time.Second, func(o *LeaveOptions) { o.Dataplane = "nftables" }); !strings.Contains(errorText(err), "--dataplane") {
		t.Errorf("another data plane than it had: %v", err)
	}
	s.hub.mu.Lock()
	s.hub.putReport(&v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "edge-1"}, Boot: p.boot})
	s.hub.mu.Unlock()
	for range 2 { // Once more changes nothing.
		if err := s.leave(time.Second, nil); err != nil {
			t.Fatal(err)
		}
		s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)
		s.noFile()
	}
	s.hub.mu.Lock()
	if n := len(s.hub.reports); n > 0 {
		t.Errorf("%d reports are left", n)
	}
	s.hub.mu.Unlock()
	if err := s.leave(time.Second, func(o *LeaveOptions) { o.StateDir = t.TempDir() }); !strings.Contains(errorText(err), "--state-dir") {
		t.Errorf("another state directory: %v", err)
	}
}

// A process of that name that runs elsewhere is seen by its Lease.
func TestNobodyLeavesForAProxyThatRunsElsewhere(t *testing.T) {
	for name, renewed := range map[string]bool{"it runs": true, "it is silent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hub := newFakeHub(&journal{})
				in := newInbox(func(Resource, string) {})
				hub.own = newOwn(in)
				px := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge-1", UID: "u"}, Status: v1alpha1.ProxyStatus{Boot: "b", Phase: v1alpha1.ProxyServing}}
				hub.put(px)
				l := newLease(Options{Name: "edge-1", Hub: hub}, "b", &reporter{inbox: in})
				renew := func() {
					if err := l.renew(t.Context()); err != nil {
						t.Error(err)
					}
				}
				renew()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for renewed && ctx.Err() == nil {
						select {
						case <-ctx.Done():
						case <-time.After(leaseEvery):
							renew()
						}
					}
				}()
				dp := &fakeDataplane{t: t, changed: make(chan struct{}, 1), journal: &journal{}}
				err := Leave(ctx, LeaveOptions{
					Name: "edge-1", Timeout: time.Second, Hub: hub, Logger: slog.New(slog.DiscardHandler),
					Dataplane: "fake", NewDataplane: func(string) (dataplane.Dataplane, error) { return dp, nil },
				})
				left := hub.proxies["edge-1"].Status.Phase == v1alpha1.ProxyLeft
				if renewed != (err != nil) || left == renewed || renewed && !strings.Contains(err.Error(), "elsewhere") {
					t.Errorf("left is %v: %v", left, err)
				}
				if renewed == dp.closed {
					t.Errorf("the data plane was looked at: %v", dp.closed)
				}
			})
		})
	}
}

// Connections of frontends that never cut are cut all the same when the time is up.
func TestDrainsAreBounded(t *testing.T) {
	p := &lb.Program{Tenants: map[lb.TenantID]*lb.Snapshot{"red": {Pools: map[lb.PoolID]*lb.Pool{}}}}
	for i, drain := range []time.Duration{0, time.Second, time.Hour} {
		id := lb.PoolID(fmt.Sprint(i))
		p.Tenants["red"].Pools[id] = &lb.Pool{ID: id, DrainTimeout: drain}
	}
	for timeout, want := range map[time.Duration][]time.Duration{
		time.Minute: {time.Minute, time.Second, time.Minute},
		0:           {drainLeast, drainLeast, drainLeast},
	} {
		got := boundDrains(p, timeout)
		for i, w := range want {
			if d := got.Tenants["red"].Pools[lb.PoolID(fmt.Sprint(i))].DrainTimeout; d != w {
				t.Errorf("within %v, pool %d drains %v, want %v", timeout, i, d, w)
			}
		}
	}
	if p.Tenants["red"].Pools["0"].DrainTimeout != 0 {
		t.Error("the Program itself has changed")
	}
}

func TestTheLastWordIsNotSaidToAnotherHub(t *testing.T) {
	hub := newFakeHub(&journal{})
	hub.own = newOwn(newInbox(func(Resource, string) {}))
	w := word{hub, "edge-1", hub.uid, slog.New(slog.DiscardHandler)}
	if err := w.try(t.Context()); err != nil {
		t.Errorf("the hub has no Proxy: %v", err)
	}
	hub.bare = true
	if err := w.try(t.Context()); err == nil {
		t.Error("it is said to a hub that serves no Proxies")
	}
	hub.bare, hub.uid = false, "another"
	if err := w.try(t.Context()); err == nil {
		t.Error("it is said to another hub")
	}
}

// A hub that says nothing of Proxies, or another one, is none that was told.
func TestNobodyLeavesByTheWordOfAnotherHub(t *testing.T) {
	for name, c := range map[string]struct {
		change, back func(h *fakeHub)
		says         string
	}{
		"nothing is installed": {func(h *fakeHub) { h.bare = true }, func(h *fakeHub) { h.bare = false }, "could not find the requested resource"},
		"another hub":          {func(h *fakeHub) { h.uid = "another" }, func(h *fakeHub) { h.uid = "hub-uid" }, "another hub"},
	} {
		for _, runs := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, runs %v", name, runs), func(t *testing.T) {
				s, p := serving(t)
				change := func(f func(h *fakeHub)) {
					s.hub.mu.Lock()
					defer s.hub.mu.Unlock()
					f(s.hub)
				}
				if !runs {
					p.stop()
					if err := <-p.ended; err != nil {
						t.Fatal(err)
					}
				}
				change(c.change)
				if err := s.leave(time.Second, nil); !strings.Contains(errorText(err), c.says) || !strings.Contains(err.Error(), "--force") {
					t.Errorf("leaving: %v", err)
				}
				if _, err := os.Stat(filepath.Join(s.dir, "edge-1.last-good")); err != nil {
					t.Error(err)
				}
				if runs {
					if err := s.answers(); err != nil {
						t.Errorf("it was refused, and yet: %v", err)
					}
				}
				change(c.back)
				s.mustSay(v1alpha1.ProxyServing, ReasonServing)
				if err := s.leave(time.Second, nil); err != nil {
					t.Fatal(err)
				}
				s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)
			})
		}
	}
}

// A proxy that has told another hub that this isn't the one that it serves leaves that one: the first one is lost.
func TestAProxyLeavesTheHubThatTookTheFirstOnesPlace(t *testing.T) {
	s, p := serving(t)
	s.hub.replace("another")
	for r := range resources + 1 {
		p.inbox.Lost(r)
	}
	s.frozen(p)
	p.stop()
	if err := <-p.ended; err != nil {
		t.Fatal(err)
	}
	if err := s.leave(time.Second, nil); err != nil {
		t.Fatal(err)
	}
	s.mustSay(v1alpha1.ProxyLeft, ReasonLeft)
	s.noFile()
}
