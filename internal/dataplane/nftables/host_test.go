package nftables_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/dataplane/hostaddr"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/testkit/netns"
)

func (w *world) has(a string) bool {
	w.t.Helper()
	all, err := w.host.Addresses()
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.Contains(all, netip.MustParseAddr(a))
}

func TestAddressesArePutOnTheHostAndTakenAway(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	assigned := func(addresses ...string) *lb.Program {
		b := newProgram().group("acme", "nodes", member(11, false)).group("acme", "nodes6", member(11, true)).
			pool("acme", "web", "nodes", 8080).pool("acme", "web6", "nodes6", 8080)
		for _, a := range addresses {
			pool := lb.PoolID("web")
			if strings.Contains(a, ":") {
				pool = "web6"
			}
			b.frontend("acme", "web", lb.TCP, netip.AddrPortFrom(netip.MustParseAddr(a), 80).String(), pool, func(f *lb.Frontend) { f.Assign = true })
		}
		return b.done()
	}
	const mine, former, theirs, six = "198.18.0.1", "198.18.0.2", "198.18.0.3", "2001:db8::1"
	w.host.Address("lo", theirs+"/32")
	w.apply(assigned(mine, former, theirs, six))
	for _, a := range []string{mine, former, six} {
		if !w.has(a) {
			t.Errorf("%s is not put on the host", a)
		}
	}
	s := w.mustDial("", mine+":80")
	w.restart()
	w.apply(assigned(mine, theirs, six))
	w.eventually("the address that is not wanted after a restart goes", func() bool { return !w.has(former) })
	w.apply(assigned())
	w.eventually("the address without connections goes", func() bool { return !w.has(six) })
	if !w.has(mine) {
		t.Error("an address goes while it has a connection")
	}
	if err := s.echo(); err != nil {
		t.Error(err)
	}
	s.Close()
	w.eventually("it goes with its last connection", func() bool { return !w.has(mine) })
	if !w.has(theirs) {
		t.Error("somebody else's address is taken away")
	}
}

// TestAddressesOfOthersAreLeftAlone: another table's on this host, and those of a data plane of another kind.
func TestAddressesOfOthersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	assigned := func(at string) *lb.Program {
		return newProgram().group("acme", "nodes", member(11, false)).pool("acme", "web", "nodes", 8080).
			frontend("acme", "web", lb.TCP, at, "web", func(f *lb.Frontend) { f.Assign = true }).done()
	}
	w.apply(assigned("198.18.0.1:80"))
	first := w.dp
	other := netip.MustParseAddr("198.18.0.9")
	if err := w.host.Do(func() error { return hostaddr.OwnerOf("another").Put(other) }); err != nil {
		t.Fatal(err)
	}
	w.options.Table = "second"
	w.start()
	w.program = nil
	w.apply(assigned("198.18.0.2:80"))
	w.eventually("connections were counted", func() bool { return len(w.dp.Observe().Closing) == 0 })
	if err := w.dp.Purge(); err != nil {
		t.Fatal(err)
	}
	if !w.has("198.18.0.1") || !w.has(other.String()) || w.has("198.18.0.2") {
		t.Error("purge takes other addresses than its own")
	}
	if err := first.Purge(); err != nil {
		t.Fatal(err)
	}
	if w.has("198.18.0.1") || !w.has(other.String()) {
		t.Error("purge takes other addresses than its own")
	}
}

// TestAHostThatForwardsNothingSaysSo and what to do, and serves as soon as that is done.
func TestAHostThatForwardsNothingSaysSo(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.host.Set("ipv4/ip_forward", "0")
	o := w.apply(both(lb.TCP, asIs, 11))
	if len(o.Refused) != 1 || !strings.Contains(o.Refused[0].Message, "net.ipv4.ip_forward=1") {
		t.Errorf("refused = %+v, want the frontend of IPv4, with the sysctl", o.Refused)
	}
	w.mustDial("", vip6)
	w.host.Set("ipv4/ip_forward", "1")
	if o := w.apply(both(lb.TCP, asIs, 11)); len(o.Refused) > 0 {
		t.Errorf("refused = %+v", o.Refused)
	}
	w.mustDial("", vip)
}

// TestWhatTheKernelRefusesCostsNobodyElse: the table of this test has room for two ports.
func TestWhatTheKernelRefusesCostsNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	p := func(frontends ...string) *lb.Program {
		b := newProgram().group("acme", "nodes", member(11, false)).pool("acme", "web", "nodes", 8080)
		for _, at := range frontends {
			b.frontend("acme", "web-"+at[len(at)-2:], lb.TCP, at, "web")
		}
		return b.done()
	}
	w.apply(p())
	listed := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	listed = strings.Replace(listed, "map ports4 {\n", "map ports4 {\n\t\tsize 2\n", 1)
	w.load("delete table inet fairlead\n" + listed)
	w.restart()
	all := []string{"198.18.0.1:81", "198.18.0.1:82", "198.18.0.1:83"}
	o := w.apply(p(all...))
	if len(o.Refused) != 1 || !strings.HasPrefix(o.Refused[0].Object.Name, "web-8") || o.Refused[0].Object.Port < 81 {
		t.Fatalf("refused = %+v, want one of three", o.Refused)
	}
	served := 0
	for _, at := range all {
		if s, err := w.dial(w.client, "", at); err == nil {
			served++
			s.Close()
		}
	}
	if served != 2 {
		t.Errorf("%d of three are served, want two", served)
	}
	// One less, and there is room.
	if o := w.apply(p(all[1:]...)); len(o.Refused) != 0 {
		t.Errorf("refused = %+v", o.Refused)
	}
	for _, at := range all[1:] {
		w.mustDial("", at)
	}
}

// TestATenantWithMoreRefusalsThanAreToldApart costs itself what it wants, and nobody else: the table of this test has
// room for two frontends with sources.
func TestATenantWithMoreRefusalsThanAreToldApart(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	p := func(mallorys int, at string) *lb.Program {
		b := newProgram().group("acme", "nodes", member(11, false)).pool("acme", "web", "nodes", 8080).frontend("acme", "web", lb.TCP, at, "web").
			group("mallory", "nodes", member(11, false)).pool("mallory", "web", "nodes", 8080)
		for i := range mallorys {
			b.frontend("mallory", "web", lb.TCP, netip.AddrPortFrom(netip.MustParseAddr("198.18.0.2"), uint16(1+i)).String(), "web", func(f *lb.Frontend) {
				f.Sources = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
			})
		}
		return b.done()
	}
	w.apply(p(1, "198.18.0.1:80"))
	listed := w.run(w.host, "nft", "list", "table", "inet", "fairlead")
	listed = strings.Replace(listed, "set limited4 {\n", "set limited4 {\n\t\tsize 2\n", 1)
	w.load("delete table inet fairlead\n" + listed)
	w.restart()
	o := w.apply(p(70, "198.18.0.1:81"))
	if len(o.Refused) < 68 {
		t.Errorf("%d are refused, want 68 at least", len(o.Refused))
	}
	for _, p := range o.Refused {
		if p.Object.Namespace != "mallory" || p.Object.Port == 1 {
			t.Errorf("refused: %+v", p)
		}
	}
	w.mustDial("", "198.18.0.1:81")
	w.mustDial("", "198.18.0.2:1")
	if o := w.apply(p(2, "198.18.0.1:82")); len(o.Refused) > 0 {
		t.Errorf("refused with room for all: %+v", o.Refused)
	}
	w.mustDial("", "198.18.0.1:82")
	w.mustDial("", "198.18.0.2:2")
}

func TestImpossibleInputCostsNobodyElse(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	o := w.apply(newProgram().
		group("acme", "nodes", member(11, false)).pool("acme", "web", "nodes", 8080).
		frontend("acme", "web", lb.TCP, vip, "web").
		group("mallory", "nodes", member(11, false, func(m *lb.Member) { m.Address = netip.Addr{} }), member(12, false, func(m *lb.Member) { m.Address = netip.MustParseAddr("::ffff:10.2.0.11") })).
		pool("mallory", "zero", "nodes", 0).pool("mallory", "odd", "nodes", 8080).pool("mallory", "lost", "nowhere", 8080).
		frontend("mallory", "no-port", lb.TCP, "198.18.0.2:0", "odd").
		frontend("mallory", "no-target-port", lb.TCP, "198.18.0.2:1", "zero").
		frontend("mallory", "no-pool", lb.TCP, "198.18.0.2:2", "nothing").
		frontend("mallory", "no-protocol", "QUIC", "198.18.0.2:3", "odd").
		frontend("mallory", "mapped", lb.TCP, "[::ffff:198.18.0.2]:4", "odd").
		frontend("mallory", "no-source", lb.TCP, "198.18.0.2:5", "odd", func(f *lb.Frontend) { f.Sources = make([]netip.Prefix, 2) }).
		frontend("mallory", "no-group", lb.TCP, "198.18.0.2:6", "lost").
		done())
	var names []string
	for _, p := range o.Refused {
		if p.Object.Namespace != "mallory" {
			t.Errorf("refused: %+v", p)
		}
		names = append(names, p.Object.Name)
	}
	if got := strings.Join(names, " "); got != "mapped no-pool no-port no-protocol no-target-port" {
		t.Errorf("refused: %s", got)
	}
	if err := w.mustDial("", vip).echo(); err != nil {
		t.Error(err)
	}
}

func TestAnotherNamespaceIsServedByItsPath(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.dp.Close(w.ctx)
	path := namespacePath(t, w.host)
	w.options.Namespace = path
	n := netns.New()
	t.Cleanup(n.Close)
	elsewhere := n.Namespace("elsewhere")
	w.startIn(elsewhere)
	w.apply(simple(member(11, false)))
	w.mustDial("", vip)
}
