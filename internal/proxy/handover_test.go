package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/dataplane/builtin"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/proxy/wire"
	"fairlead.dev/fairlead/internal/traffic"
	"github.com/prometheus/client_golang/prometheus"
)

// site is a LoadBalancer with a TCP and a UDP port, its one target, and the
// processes that serve it one after the other. Sockets, files and locks are real.
type site struct {
	t       *testing.T
	hub     *fakeHub
	dir     string
	objects []Object
	tcp     netip.AddrPort
	udp     netip.AddrPort
	boots   []string
}

type process struct {
	*Proxy
	stop  context.CancelFunc
	ended chan error
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, hub: newFakeHub(&journal{}), dir: t.TempDir()}
	target := netip.MustParseAddr("127.85.0.1")
	tcpTarget, udpTarget := serveHollow(t, target), serveEcho(t, target)
	port := freePort(t, "127.84.0.7")
	s.tcp, s.udp = netip.AddrPortFrom(netip.MustParseAddr("127.84.0.7"), port), netip.AddrPortFrom(netip.MustParseAddr("127.84.0.7"), port)
	l, a := loadBalancer("red", "web", "192.0.2.7")
	l.Spec.Ports = []clusterv1.Port{
		{Name: "tcp", Protocol: clusterv1.ProtocolTCP, Port: int32(port), TargetPort: int32(tcpTarget)},
		{Name: "udp", Protocol: clusterv1.ProtocolUDP, Port: int32(port), TargetPort: int32(udpTarget)},
	}
	a.Spec.Holders[0].Ports = []string{fmt.Sprintf("TCP/%d", port), fmt.Sprintf("UDP/%d", port)}
	s.objects = []Object{class(), l, a, targetGroup("red", v1alpha1.Target{Name: "node-1", UID: "uid-1", Addresses: []string{target.String()}})}
	return s
}

// serveHollow answers as a hollow node does.
func serveHollow(t *testing.T, at netip.Addr) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	who := traffic.Identity{Cluster: "red", Namespace: "default", Pod: "web-1", Node: "node-1"}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(traffic.Answer{Identity: who, Client: r.RemoteAddr})
	})
	mux.HandleFunc("/hold", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		if json.NewEncoder(rw).Encode(traffic.Answer{Identity: who}) == nil && rw.Flush() == nil {
			io.Copy(c, rw)
		}
	})
	server := &http.Server{Handler: mux}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return ln.Addr().(*net.TCPAddr).AddrPort().Port()
}

// serveEcho sends datagrams back, with the address that it saw before them.
func serveEcho(t *testing.T, at netip.Addr) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			_, from, err := c.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.WriteToUDPAddrPort([]byte(from.String()), from)
		}
	}()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

func freePort(t *testing.T, address string) uint16 {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", address+":0")
		if err != nil {
			t.Fatal(err)
		}
		at := ln.Addr().(*net.TCPAddr).AddrPort()
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		ln.Close()
		if err == nil {
			c.Close()
			return at.Port()
		}
	}
	t.Fatal("no free port")
	return 0
}

// start starts the next process; change may be nil.
func (s *site) start(change func(*Options)) *process {
	s.t.Helper()
	p := s.startBlind(change)
	s.list(p, 100*len(s.boots))
	return p
}

// startBlind starts a process that is told nothing by the hub.
func (s *site) startBlind(change func(*Options)) *process {
	s.t.Helper()
	dp := builtin.New(builtin.Options{BindAs: []builtin.Translation{{From: netip.MustParsePrefix("192.0.2.0/24"), To: netip.MustParsePrefix("127.84.0.0/24")}}})
	o := Options{
		Name: "edge-1", Pool: "edge", Version: "test", Hub: s.hub, Source: fakeSource{},
		NewBuilder: func() Builder { return build.New(build.Options{ProxyPool: "edge", Check: dp.Check}) },
		Dataplane:  dp, Checker: &fakeChecker{changed: make(chan struct{}, 1)}, StateDir: s.dir, ShutdownTimeout: time.Second,
		Logger: slog.New(slog.NewTextHandler(lines{s.t}, nil)), Metrics: NewMetrics(prometheus.NewRegistry()),
	}
	if change != nil {
		change(&o)
	}
	p := &process{Proxy: New(o), ended: make(chan error, 1)}
	s.hub.watch(p.own)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		p.ended <- p.Run(ctx)
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-p.ended
	})
	s.boots = append(s.boots, p.boot)
	return p
}

// watch has a process hear of its own objects, as they are and will be.
func (h *fakeHub) watch(own *Own) {
	h.mu.Lock()
	defer h.mu.Unlock()
	px := h.proxies["edge-1"]
	if h.own == nil {
		h.own = own
	} else {
		h.others = append(h.others, own)
	}
	if px != nil {
		own.Set(px.DeepCopy(), px.ResourceVersion)
	} else {
		own.Set(nil, "1")
	}
}

// list is what a process's watches deliver.
func (s *site) list(p *process, version int) {
	by := map[Resource][]Object{}
	for _, o := range s.objects {
		by[resourceOf(o)] = append(by[resourceOf(o)], o.DeepCopyObject().(Object))
	}
	for r := range resources {
		version++
		p.inbox.Replace(r, by[r], fmt.Sprint(version))
	}
}

type lines struct{ t *testing.T }

func (l lines) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}

func (s *site) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// writes waits until that process is the one that the hub hears.
func (s *site) writes(p *process) {
	s.t.Helper()
	s.until("the process to report", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		px := s.hub.proxies["edge-1"]
		return px != nil && px.Status.Boot == p.boot && px.Status.Phase == v1alpha1.ProxyServing
	})
}

func (s *site) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := traffic.Ask(ctx, s.tcp, "/")
	return err
}

// asker is one UDP client that goes on asking; seen are the addresses that the target saw it at.
type asker struct {
	asked, lost atomic.Int64
	seen        atomic.Int64
	stop, done  chan struct{}
}

func (s *site) ask() *asker {
	s.t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(s.udp))
	if err != nil {
		s.t.Fatal(err)
	}
	a := &asker{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer c.Close()
		last, b := "", make([]byte, 100)
		for {
			select {
			case <-a.stop:
				return
			default:
			}
			a.asked.Add(1)
			c.Write([]byte("who am I"))
			c.SetReadDeadline(time.Now().Add(time.Second))
			n, err := c.Read(b)
			if err != nil {
				a.lost.Add(1)
				continue
			}
			if at := string(b[:n]); at != last {
				last = at
				a.seen.Add(1)
			}
		}
	}()
	return a
}

func (a *asker) end() { close(a.stop); <-a.done }

const requestRate, heldConnections = 150, 10

// under measures what clients notice of an event.
func (s *site) under(event func()) traffic.Report {
	s.t.Helper()
	g := traffic.NewGenerator()
	defer g.Stop()
	g.Add(s.t.Context(), traffic.Service{Name: "web", Ways: []traffic.Way{{Name: "edge-1", Address: s.tcp}}, Rate: requestRate, Held: heldConnections})
	reports, err := g.Around(s.t.Context(), func(context.Context) error { event(); return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return reports[0]
}

func TestProcessesFollowEachOtherUnnoticed(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	a := s.ask()
	report := s.under(func() {
		for range 3 {
			next := s.start(nil)
			s.writes(next)
			if err := ended(p); err != nil && !errors.Is(err, errRuns) {
				t.Errorf("the one before: %v", err)
			}
			p = next
		}
	})
	if why := report.Verdict(); why != "" {
		t.Error(why)
	}
	a.end()
	if a.lost.Load() > 0 || a.seen.Load() != 1 {
		t.Errorf("of %d datagrams %d were lost, and the target saw %d addresses", a.asked.Load(), a.lost.Load(), a.seen.Load())
	}
	t.Logf("%s; %d datagrams", report.String(), a.asked.Load())
}

var errRuns = errors.New("it still runs")

func ended(p *process) error {
	select {
	case err := <-p.ended:
		return err
	default:
		return errRuns
	}
}

// TestARestartWithoutHandOverIsNoticed is what the test above would see if nothing were handed over.
func TestARestartWithoutHandOverIsNoticed(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	report := s.under(func() {
		p.stop()
		<-p.ended
		p = s.start(nil)
		s.writes(p)
	})
	if report.Failed == 0 || len(report.Lost) != heldConnections {
		t.Errorf("%s; lost %v", report.String(), report.Lost)
	}
}

func TestThePredecessorStaysAsLongAsItsConnections(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	held, err := net.Dial("tcp", s.tcp.String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.until("the connection is relayed", func() bool { o := p.o.Dataplane.(*builtin.Dataplane).Open(); return !o.Empty() })
	next := s.start(nil)
	s.writes(next)

	// Its target begins to drain: both processes hear of it. The hub hears of what is open in the first.
	tg := s.objects[3].(*v1alpha1.TargetGroup)
	tg.Spec.Targets[0].State = v1alpha1.TargetDraining
	tg.Generation++
	tell := func(q *process) {
		tg := tg.DeepCopy()
		tg.ResourceVersion = "900"
		q.inbox.Set(TargetGroups, tg)
	}
	tell(next)
	tell(p)
	member := func() (m v1alpha1.ReportedMember) {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		if r := s.hub.reports[Key{"red", "edge-1"}]; r != nil && len(r.Members) == 1 {
			m = r.Members[0]
		}
		return m
	}
	s.until("the report", func() bool { return member().State != "" })
	if m := member(); m.State != v1alpha1.ReportedDraining {
		t.Errorf("reported %s while the predecessor has a connection", m.State)
	}
	s.until("the count of the one that is held", func() bool { return member().OpenConnections == 1 })
	if !errors.Is(ended(p), errRuns) {
		t.Error("the predecessor has ended with an open connection")
	}
	held.Close()
	s.until("the member is gone", func() bool { return member().State == v1alpha1.ReportedGone })
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	if got := s.hub.boot(); got != next.boot {
		t.Errorf("the hub hears boot %s, the successor's is %s", got, next.boot)
	}
}

func (h *fakeHub) boot() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proxies["edge-1"].Status.Boot
}

// Neither process has ever seen the hub: what the file says goes from one to the other.
func TestProcessesFollowEachOtherWithoutAHub(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	p.stop()
	<-p.ended
	s.hub.leave()
	for range 3 {
		p = s.startBlind(nil)
		s.until("an answer", func() bool { return p.Ready() && s.answers() == nil })
	}
	report := s.under(func() {
		next := s.startBlind(nil)
		s.until("the one before to end what it has", func() bool {
			o := p.o.Dataplane.(*builtin.Dataplane).Open()
			return next.Ready() && len(o.Members) <= 1
		})
	})
	if why := report.Verdict(); why != "" {
		t.Error(why)
	}
}

func TestThePredecessorCutsWhenItsTimeIsUp(t *testing.T) {
	s := newSite(t)
	p := s.start(func(o *Options) { o.HandoverTimeout, o.ShutdownTimeout = 100*time.Millisecond, 10*time.Millisecond })
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	held, err := net.Dial("tcp", s.tcp.String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.until("the connection is relayed", func() bool { o := p.o.Dataplane.(*builtin.Dataplane).Open(); return !o.Empty() })
	s.writes(s.start(nil))
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	held.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := held.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the connection cut", err)
	}
}

// A successor that can't go on costs nothing: who serves goes on serving and reporting.
func TestASuccessorThatFailsIsNotNoticed(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	for name, change := range map[string]func(*Options){
		"of another pool": func(o *Options) { o.Pool = "other" },
		"that dies before it has applied": func(o *Options) {
			o.Dataplane = dying{o.Dataplane.(*builtin.Dataplane)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := s.start(change)
			select {
			case err := <-q.ended:
				if err == nil {
					t.Error("it returned no error")
				}
				t.Log(err)
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on")
			}
			if err := s.answers(); err != nil {
				t.Error(err)
			}
			a := s.ask()
			s.until("datagrams are answered", func() bool { return a.asked.Load()-a.lost.Load() > 10 })
			a.end()
		})
	}
	// It still hands over to one that can.
	next := s.start(nil)
	s.writes(next)
	if err := s.answers(); err != nil {
		t.Error(err)
	}
}

// A successor that hangs gives up, and lets nobody take the one that serves for silent.
func TestASuccessorThatHangsIsNotNoticed(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	var hung chan struct{}
	q := s.start(func(o *Options) {
		h := hanging{o.Dataplane.(*builtin.Dataplane), make(chan struct{})}
		o.Dataplane, hung = h, h.until
	})
	defer close(hung)
	var silent time.Duration
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for over, began := false, time.Now(); !over; {
		select {
		case err := <-q.ended:
			over = true
			if err == nil {
				t.Error("it returned no error")
			}
			t.Log(err)
		case <-tick.C:
			silent = max(silent, s.hub.sinceRenewal())
			if time.Since(began) > time.Minute {
				t.Fatal("it goes on")
			}
		}
	}
	if silent > leaseFor-leaseEvery {
		t.Errorf("the Lease was not renewed for %v", silent)
	}
	s.until("the Lease is renewed", func() bool { return s.hub.sinceRenewal() < leaseEvery })
	if err := s.answers(); err != nil {
		t.Error(err)
	}
	s.writes(s.start(nil))
}

// sinceRenewal is the age of the newest Lease.
func (h *fakeHub) sinceRenewal() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.leases[Key{v1alpha1.SystemNamespace, "edge-1"}].Spec.RenewTime.Time)
}

// hanging is a data plane whose first Apply takes longer than anybody waits.
type hanging struct {
	*builtin.Dataplane
	until chan struct{}
}

func (h hanging) Apply(context.Context, *lb.Program, lb.Changes) (o dataplane.Outcome, err error) {
	<-h.until
	return o, errors.New("it hung")
}

// A process that dies while it hands over takes nothing with it but what it had open.
func TestAPredecessorThatDiesHalfWayIsReplaced(t *testing.T) {
	s := newSite(t)
	p := s.start(nil)
	s.until("the first answer", func() bool { return s.answers() == nil })
	s.writes(p)
	p.stop()
	<-p.ended
	l, err := wire.Listen(s.dir, socketName("edge-1"))
	if err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 1)
	go func() {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			died <- err
			return
		}
		defer c.Close()
		if _, err = expect(c, stepHello); err == nil {
			err = c.Send(message{Step: stepHanded, Serves: true})
		}
		if err == nil {
			_, err = expect(c, stepReady)
		}
		died <- err
	}()
	next := s.start(nil)
	if err := <-died; err != nil {
		t.Fatal(err)
	}
	s.writes(next)
	if err := s.answers(); err != nil {
		t.Error(err)
	}
	a := s.ask()
	defer a.end()
	s.until("datagrams are answered", func() bool { return a.asked.Load()-a.lost.Load() > 10 })
}

// dying is a data plane whose Recover fails.
type dying struct{ *builtin.Dataplane }

func (dying) Recover(context.Context, *lb.Program) (d dataplane.Drift, err error) {
	return d, errors.New("it can't go on")
}
