package builtin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// echo answers each datagram with its own name and what it got.
type echo struct {
	conn *net.UDPConn
	wg   sync.WaitGroup
}

func listenUDP(t testing.TB, name string, where netip.AddrPort) *echo {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(where))
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{conn: conn}
	e.wg.Go(func() {
		b := make([]byte, datagramSize)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				conn.WriteToUDPAddrPort(append([]byte(name+" "), b[:n]...), from)
			}
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *echo) stop() {
	e.conn.Close()
	e.wg.Wait()
}

// asker is a client with a flow.
type asker struct{ *net.UDPConn }

func askFrom(t testing.TB, from netip.Addr, where netip.AddrPort) asker {
	t.Helper()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(where))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return asker{c}
}

func newAsker(t testing.TB, where netip.AddrPort) asker {
	t.Helper()
	from := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if where.Addr().Is6() {
		from = netip.IPv6Loopback()
	}
	return askFrom(t, from, where)
}

// once sends a datagram and returns who answered; "" if nobody did.
func (a asker) once(wait time.Duration) string {
	if _, err := a.Write([]byte("hello")); err != nil {
		return ""
	}
	a.SetReadDeadline(time.Now().Add(wait))
	b := make([]byte, 100)
	n, err := a.Read(b)
	if err != nil {
		return ""
	}
	var name, text string
	fmt.Sscan(string(b[:n]), &name, &text)
	if text != "hello" {
		return "garbled: " + string(b[:n])
	}
	return name
}

func (a asker) mustHear(t testing.TB) string {
	t.Helper()
	name := a.once(patience)
	if name == "" {
		t.Fatal("no answer")
	}
	return name
}

// silence is long enough for what would come over loopback to have come.
const silence = 100 * time.Millisecond

// dns is a UDP service with two members that run.
func dns(t testing.TB) (s service, m1, m2 *echo) {
	port := freeUDPPort(t, "127.0.1.1", "127.0.1.2", "127.0.0.1")
	m1, m2 = listenUDP(t, "m1", at("127.0.1.1", port)), listenUDP(t, "m2", at("127.0.1.2", port))
	return service{
		name: "dns", protocol: lb.UDP, at: at("127.0.0.1", port), port: port,
		members: []lb.Member{memberAt("m1", "127.0.1.1"), memberAt("m2", "127.0.1.2")},
	}, m1, m2
}

func freeUDPPort(t testing.TB, addresses ...string) uint16 {
	t.Helper()
	for range 100 {
		port := freePort(t, addresses...)
		free := true
		for _, a := range addresses {
			c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at(a, port)))
			if err != nil {
				free = false
				break
			}
			c.Close()
		}
		if free {
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// flowOn opens flows until there is one to the member named.
func flowOn(t testing.TB, where netip.AddrPort, name string) asker {
	t.Helper()
	for range 200 {
		if a := newAsker(t, where); a.mustHear(t) == name {
			return a
		}
	}
	t.Fatalf("no flow to %s", name)
	return asker{}
}

func (p *plane) openFlows() int64 { return p.flows.Load() }

func TestFlowsSpreadAndStay(t *testing.T) {
	s, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(s)
	got := map[string]int{}
	for range 100 {
		a := newAsker(t, s.at)
		first := a.mustHear(t)
		got[first]++
		for range 3 {
			if name := a.mustHear(t); name != first {
				t.Fatalf("went to %s, then to %s", first, name)
			}
		}
	}
	if got["m1"] < 25 || got["m2"] < 25 {
		t.Errorf("got %v of 100, want about half each", got)
	}
	if n := p.openFlows(); n != 100 {
		t.Errorf("%d flows, want 100", n)
	}
}

func TestFlowsOfOneClientStayTogetherWithClientIP(t *testing.T) {
	s, _, _ := dns(t)
	s.pool.Hash = lb.HashClientIP
	p := start(t, Options{})
	p.apply(s)
	first := newAsker(t, s.at).mustHear(t)
	for range 20 {
		if name := newAsker(t, s.at).mustHear(t); name != first {
			t.Fatalf("went to %s, then to %s", first, name)
		}
	}
}

func TestEmptyAndBigDatagramsArriveWhole(t *testing.T) {
	port := freeUDPPort(t, "127.0.1.1", "127.0.0.1")
	listenUDP(t, "m1", at("127.0.1.1", port))
	p := start(t, Options{})
	p.apply(service{name: "dns", protocol: lb.UDP, at: at("127.0.0.1", port), port: port, members: []lb.Member{memberAt("m1", "127.0.1.1")}})
	a := newAsker(t, at("127.0.0.1", port))
	for _, size := range []int{0, 1, 1472, 9000, 60000} {
		if _, err := a.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		a.SetReadDeadline(time.Now().Add(patience))
		b := make([]byte, datagramSize)
		if n, err := a.Read(b); err != nil || n != size+3 {
			t.Errorf("of %d bytes %d came back, %v", size, n-3, err)
		}
	}
}

func TestFlowWithoutMembersIsSilent(t *testing.T) {
	s, _, _ := dns(t)
	s.members = nil
	p := start(t, Options{})
	p.apply(s)
	if name := newAsker(t, s.at).once(silence); name != "" {
		t.Errorf("%s answered", name)
	}
	if n := p.openFlows(); n != 0 {
		t.Errorf("%d flows", n)
	}
}

func TestFlowLeavesAMemberFoundDead(t *testing.T) {
	s, _, _ := dns(t)
	check := lb.Check{Kind: lb.CheckHTTP, Port: 10256}
	s.pool.Check = check
	p := start(t, Options{})
	p.apply(s)
	a, b := flowOn(t, s.at, "m1"), flowOn(t, s.at, "m2")
	p.applyWith(lb.Health{check: {s.members[0].Address: lb.Unhealthy}}, s)
	if name := a.mustHear(t); name != "m2" {
		t.Errorf("its next datagram went to %s", name)
	}
	if name := b.mustHear(t); name != "m2" {
		t.Errorf("a flow of the other member went to %s", name)
	}
	// The other dies too, and the pool fails open: nobody moves.
	s.pool.FailOpen = true
	p.applyWith(lb.Health{check: {s.members[0].Address: lb.Unhealthy, s.members[1].Address: lb.Unhealthy}}, s)
	if name := a.mustHear(t); name != "m2" {
		t.Errorf("failing open it went to %s", name)
	}
}

func TestFlowLeavesAMemberThatRefuses(t *testing.T) {
	s, m1, _ := dns(t)
	p := start(t, Options{})
	p.apply(s)
	a := flowOn(t, s.at, "m1")
	m1.stop()
	until(t, "the flow moves", func() bool { return a.once(silence) == "m2" })
	if p.suspected(s.members[0].Address) == 0 {
		t.Error("health was not told")
	}
	for range 20 { // New ones too.
		if name := newAsker(t, s.at).once(patience); name != "m2" {
			t.Fatalf("a new flow heard %q", name)
		}
	}
}

func TestFlowStaysWhileItsMemberDrainsUntilTheTimeIsUp(t *testing.T) {
	s, _, _ := dns(t)
	key := s.members[0].Key()
	p := start(t, Options{})
	p.apply(s)
	a := flowOn(t, s.at, "m1")
	flows := p.openFlows()
	p.apply(draining(s, 0))
	if n := p.draining(key); n < 1 || n > flows {
		t.Errorf("%d of %d flows drain", n, flows)
	}
	for range 3 {
		if name := a.mustHear(t); name != "m1" {
			t.Fatalf("went to %s while m1 drains", name)
		}
	}
	if name := newAsker(t, s.at).mustHear(t); name != "m2" {
		t.Errorf("a new flow went to %s", name)
	}
	p.apply(draining(s, time.Millisecond))
	until(t, "its flows end", func() bool { return p.draining(key) == 0 })
	if name := a.mustHear(t); name != "m2" {
		t.Errorf("drained out, it went to %s", name)
	}
}

func TestFlowLeavesARemovedMember(t *testing.T) {
	s, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(s)
	a := flowOn(t, s.at, "m1")
	p.apply(removed(s))
	if name := a.mustHear(t); name != "m2" {
		t.Errorf("went to %s", name)
	}
}

func TestIdleFlowEndsAndABusyOneDoesNot(t *testing.T) {
	s, _, _ := dns(t)
	s.front.IdleTimeout = 200 * time.Millisecond
	p := start(t, Options{})
	p.apply(s)
	newAsker(t, s.at).mustHear(t)
	busy := newAsker(t, s.at)
	began := time.Now()
	until(t, "the idle flow ends", func() bool { busy.mustHear(t); return p.openFlows() == 1 })
	if took := time.Since(began); took < s.front.IdleTimeout/2 {
		t.Errorf("ended after %v", took)
	}
	until(t, "the busy one ends too", func() bool { return p.openFlows() == 0 })
}

func TestFlowsOutliveTheirFrontendAndItsReturn(t *testing.T) {
	s, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(s)
	a := newAsker(t, s.at)
	name := a.mustHear(t)
	id := p.now.Listeners[0].Frontends[0]
	p.apply()
	if n := p.Observe().Closing[id]; n != 1 {
		t.Errorf("%d closing, want 1", n)
	}
	if got := a.mustHear(t); got != name {
		t.Errorf("went to %s, then to %s", name, got)
	}
	if got := newAsker(t, s.at).once(silence); got != "" {
		t.Errorf("a new flow of a frontend that is gone heard %s", got)
	}
	p.apply(s)
	if got := a.mustHear(t); got != name {
		t.Errorf("back again, it went to %s", got)
	}
	newAsker(t, s.at).mustHear(t)

	// Somebody else gets the socket: datagrams are his from then on.
	other := s
	other.tenant, other.name, other.members = "other", "theirs", s.members[:1]
	if name == "m1" {
		other.members = s.members[1:]
	}
	p.apply(other)
	if got := a.mustHear(t); got == name {
		t.Errorf("a datagram to another's socket went to %s", got)
	}
}

func TestFrontendWithAShortDrainCutsItsFlowsAndClosesItsSocket(t *testing.T) {
	s, _, _ := dns(t)
	s.pool.DrainTimeout = 50 * time.Millisecond
	p := start(t, Options{})
	p.apply(s)
	newAsker(t, s.at).mustHear(t)
	p.apply()
	until(t, "nothing is left", func() bool { return len(p.Observe().Closing) == 0 && p.openFlows() == 0 })
	until(t, "the socket is free", func() bool {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.at))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestAFloodOfFlowsIsBounded(t *testing.T) {
	s, _, _ := dns(t)
	other := s
	other.name, other.at = "other", at("127.0.0.1", freeUDPPort(t, "127.0.0.1"))
	p := start(t, Options{MaxFlows: 40})
	p.apply(s, other)
	for range 60 {
		newAsker(t, s.at).mustHear(t)
	}
	until(t, "the old ones have ended", func() bool { return p.openFlows() <= 10 })
	if n := counter(t, p.metrics.evicted); n != 50 {
		t.Errorf("%v were ended to make room, want 50", n)
	}
	newAsker(t, other.at).mustHear(t)
}

func TestATenantsFloodsLeaveRoomToOthers(t *testing.T) {
	s, _, _ := dns(t)
	flooded, other := []service{s}, s
	for i := range 3 {
		next := s
		next.name, next.at = fmt.Sprintf("dns%d", i), at("127.0.0.1", freeUDPPort(t, "127.0.0.1"))
		flooded = append(flooded, next)
	}
	other.tenant, other.name, other.at = "blue", "other", at("127.0.0.1", freeUDPPort(t, "127.0.0.1"))
	p := start(t, Options{MaxFlows: 40})
	p.apply(append(flooded, other)...)
	for range 10 {
		for _, f := range flooded {
			newAsker(t, f.at).mustHear(t)
		}
	}
	until(t, "half of the room is left", func() bool { return p.openFlows() <= 20 })
	for range 10 {
		newAsker(t, other.at).mustHear(t)
	}
}

// Two tenants fill everything together: a third one's first datagram takes the place of one of theirs.
func TestFloodsOfTwoTenantsLeaveRoomToAThird(t *testing.T) {
	s, _, _ := dns(t)
	var flooded []service
	for i := range 4 {
		next := s
		next.tenant, next.name, next.at = lb.TenantID(fmt.Sprintf("flood%d", i/2)), fmt.Sprintf("dns%d", i), at("127.0.0.1", freeUDPPort(t, "127.0.0.1"))
		flooded = append(flooded, next)
	}
	other := s
	other.tenant, other.name, other.at = "blue", "other", at("127.0.0.1", freeUDPPort(t, "127.0.0.1"))
	p := start(t, Options{MaxFlows: 40})
	p.apply(append(flooded, other)...)
	flood := func() {
		for range 12 {
			for _, f := range flooded {
				newAsker(t, f.at).mustHear(t)
			}
		}
	}
	flood()
	quiet := newAsker(t, other.at)
	name := quiet.mustHear(t)
	until(t, "it is bounded", func() bool { return p.openFlows() <= 40 })
	flood()
	if got := quiet.mustHear(t); got != name {
		t.Errorf("went to %s, then to %s", name, got)
	}
	if n := p.flowsOf("blue").n.Load(); n != 1 {
		t.Errorf("%d flows of the third tenant, want the one that it began with", n)
	}
}

func TestFlowsFromElsewhereAreNotServed(t *testing.T) {
	s, _, _ := dns(t)
	s.front.Sources = []netip.Prefix{netip.MustParsePrefix("127.0.7.0/24")}
	p := start(t, Options{})
	p.apply(s)
	inside, outside := askFrom(t, netip.MustParseAddr("127.0.7.9"), s.at), askFrom(t, netip.MustParseAddr("127.0.8.9"), s.at)
	inside.mustHear(t)
	if name := outside.once(silence); name != "" {
		t.Errorf("%s answered", name)
	}
	// The ranges change: running flows too.
	s.front.Sources = []netip.Prefix{netip.MustParsePrefix("127.0.8.0/24")}
	p.apply(s)
	if name := inside.once(silence); name != "" {
		t.Errorf("%s answered", name)
	}
	outside.mustHear(t)
}

func TestFlowsEndWithClose(t *testing.T) {
	s, _, _ := dns(t)
	p := start(t, Options{})
	p.apply(s)
	newAsker(t, s.at).mustHear(t)
	ctx, cancel := contextDone()
	defer cancel()
	p.Close(ctx)
	if n := p.openFlows(); n != 0 {
		t.Errorf("%d flows are left", n)
	}
}
