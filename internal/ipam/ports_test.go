package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

func byPort(t testing.TB, ranges ...string) Pool {
	p := pool(t, "public", 1, ranges...)
	p.ByPort, p.Share = true, ShareAny
	return p
}

func hostsPool(ports string) Pool {
	r, err := ParsePortRange(ports)
	if err != nil {
		panic(err)
	}
	return Pool{Name: "public", Created: time.Unix(1, 0), ByPort: true, Share: ShareAny, PerTenant: Unbounded, Hosts: "edge", HostPorts: r}
}

// grantAll carries out what is decided as the Keeper does: until nothing is left to write, and then what is surplus. The steps
// say what was written.
func grantAll(l *Ledger, n Needs) Decision {
	d, wrote := l.Decide(n, nil), map[string]Action{}
	for tries := 0; !d.Keeps() && !d.Waits(); tries++ {
		if tries == 10 {
			panic(fmt.Sprintf("%s is decided for ever: %+v", n.Ref, d))
		}
		for _, s := range d.Steps {
			if s.Action != Keep {
				l.Set(s.Entry)
				wrote[s.Entry.Name] = s.Action
			}
		}
		d = l.Decide(n, nil)
	}
	for i, s := range d.Steps {
		d.Steps[i].Action = cmp.Or(wrote[s.Entry.Name], s.Action)
	}
	for _, e := range d.Surplus {
		giveUp(l, e, Entry{Holders: []Holder{{Ref: n.Ref}}})
	}
	return d
}

func names(d Decision) string {
	var out []string
	for _, s := range d.Steps {
		out = append(out, s.Entry.Name)
	}
	return strings.Join(out, " ")
}

func TestNamesSayWhatIsHeld(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("fd00::7")
	for name, w := range map[string]What{
		"192.0.2.20":                 {Address: v4},
		"fd00-0-0-0-0-0-0-7":         {Address: v6},
		"192.0.2.20.tcp.443":         {Address: v4, Port: Port{"TCP", 443}},
		"fd00-0-0-0-0-0-0-7.udp.53":  {Address: v6, Port: Port{"UDP", 53}},
		"hosts-edge.ipv4.tcp.20001":  {Address: netip.IPv4Unspecified(), Hosts: "edge", Port: Port{"TCP", 20001}},
		"hosts-a.b-c.ipv6.sctp.9999": {Address: netip.IPv6Unspecified(), Hosts: "a.b-c", Port: Port{"SCTP", 9999}},
	} {
		if got := w.Name(); got != name {
			t.Errorf("%+v is named %s, want %s", w, got, name)
		}
		if got, err := ParseName(name); err != nil || got != w {
			t.Errorf("%s reads as %+v, %v; want %+v", name, got, err, w)
		}
	}
	for _, bad := range []string{"", "x", "192.0.2.20.tcp", "192.0.2.20.tcp.0", "192.0.2.20.TCP.80", "192.0.2.20.tcp.080", "192.0.2.20.tcp.65536", "hosts-edge.tcp.80", "hosts-edge.ipv5.tcp.80", "0.0.0.0.tcp.80"} {
		if w, err := ParseName(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, w)
		}
	}
}

func TestPortsOfAnAddressAreGrantedByThemselves(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "192.0.2.0/31")})
	if d := grantAll(l, needs("a", "x", 80, 443)); names(d) != "192.0.2.0.tcp.443 192.0.2.0.tcp.80" {
		t.Fatalf("%+v", d)
	}
	// Another tenant, on another port, shares the address; on the same one it gets another address.
	if d := grantAll(l, needs("b", "y", 8080)); names(d) != "192.0.2.0.tcp.8080" {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, needs("b", "z", 443, 8080)); names(d) != "192.0.2.1.tcp.443 192.0.2.1.tcp.8080" {
		t.Fatalf("%+v", d)
	}
	// Of one number, the protocols are apart.
	udp := needs("c", "dns")
	udp.Ports = []Port{{"UDP", 443}}
	if d := grantAll(l, udp); names(d) != "192.0.2.0.udp.443" {
		t.Fatalf("%+v", d)
	}
	// No address is left: it waits, is told the fix, and of no other tenant.
	d := grantAll(l, needs("c", "late", 443))
	if !d.Waits() || d.Reason != clusterv1.ReasonPortInUse || !strings.Contains(d.Message, "use other ports") || strings.Contains(d.Message, "LoadBalancer") {
		t.Fatalf("%+v", d)
	}
	wish := needs("c", "late", 443)
	wish.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.0")}
	if d := grantAll(l, wish); !d.Waits() || d.Message != "Port TCP/443 of 192.0.2.0 is held by another tenant: use another port, or another address." {
		t.Fatalf("%+v", d)
	}
	if c := l.CountsOf("public"); c.Granted != 6 || c.Releasing != 0 || c.Free != 2*65535-5 {
		t.Fatalf("%+v", c)
	}
	if u := l.UsageOf("b"); u.Addresses != 2 || u.Ports != 3 || u.LoadBalancers != 2 || u.PerPool["public"] != 3 {
		t.Fatalf("%+v", u)
	}
	// A port that is given up is free once its own release is proven, whatever else is held there.
	d = grantAll(l, needs("a", "x", 80))
	if names(d) != "192.0.2.0.tcp.80" || len(d.Surplus) != 1 || d.Surplus[0].Name != "192.0.2.0.tcp.443" {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, wish); !d.Waits() || !strings.Contains(d.Message, "still being released by another tenant") {
		t.Fatalf("%+v", d)
	}
	l.Delete("192.0.2.0.tcp.443")
	if d := grantAll(l, wish); names(d) != "192.0.2.0.tcp.443" {
		t.Fatalf("%+v", d)
	}
}

func TestPortsStick(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "192.0.2.0/30")})
	grantAll(l, needs("a", "first", 80))
	grantAll(l, needs("b", "x", 80, 81))
	if l.Delete("192.0.2.0.tcp.80"); names(grantAll(l, needs("b", "x", 80, 81))) != "192.0.2.1.tcp.80 192.0.2.1.tcp.81" {
		t.Fatal("it moved to an address that became free")
	}
	// A further port comes where the others are; one that another has there costs that one alone.
	grantAll(l, needs("a", "second", 82))
	taken := needs("a", "third", 83)
	taken.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	grantAll(l, taken)
	d := grantAll(l, needs("b", "x", 80, 82, 83))
	if names(d) != "192.0.2.1.tcp.80 192.0.2.1.tcp.82" || d.Reason != clusterv1.ReasonPortInUse || !strings.Contains(d.Message, "TCP/83 of 192.0.2.1") {
		t.Fatalf("%+v", d)
	}
	// Where it can have none of its ports any more, it moves.
	if d := grantAll(l, needs("b", "x", 83)); names(d) != "192.0.2.0.tcp.83" || len(d.Surplus) != 2 {
		t.Fatalf("%+v", d)
	}
	// Reborn, it gets what is still being released of its own.
	for _, e := range l.HeldBy(Ref{"b", "x"}) {
		e.Phase = Releasing
		l.Set(e)
	}
	if d := grantAll(l, needs("b", "x", 80, 82)); names(d) != "192.0.2.1.tcp.80 192.0.2.1.tcp.82" {
		t.Fatalf("%+v", d)
	}
}

func TestWholeAddressesAndPortsKeepOffEachOther(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "192.0.2.0/31")})
	grantAll(l, needs("a", "x", 80))
	// The range becomes another pool's.
	whole := pool(t, "public", 1, "192.0.2.0/31")
	l.SetPools([]Pool{whole})
	if d := grantAll(l, needs("b", "y", 80)); names(d) != "192.0.2.1" {
		t.Fatalf("%+v", d)
	}
	wish := needs("b", "z", 443)
	wish.Wanted = []netip.Addr{netip.MustParseAddr("192.0.2.0")}
	if d := grantAll(l, wish); !d.Waits() || d.Reason != clusterv1.ReasonAddressInUse {
		t.Fatalf("%+v", d)
	}
	if c := l.CountsOf("public"); c.Free != 0 || c.Granted != 2 {
		t.Fatalf("%+v", c)
	}
	l.Delete("192.0.2.0.tcp.80")
	if d := grantAll(l, wish); names(d) != "192.0.2.0" {
		t.Fatalf("%+v", d)
	}
	l.SetPools([]Pool{byPort(t, "192.0.2.0/31")})
	if d := grantAll(l, needs("c", "n", 8080)); !d.Waits() || d.Reason != clusterv1.ReasonPortInUse {
		t.Fatalf("%+v", d)
	}
}

func TestPortsOfHosts(t *testing.T) {
	one, other := netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("fd00::20")
	l := New()
	l.SetPools([]Pool{hostsPool("20000-20009")})
	if d := grantAll(l, needs("a", "x", 20001)); names(d) != "hosts-edge.ipv4.tcp.20001" || !d.Steps[0].Entry.OfHosts() {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, needs("a", "low", 80, 20002)); !d.Waits() || d.Reason != clusterv1.ReasonPortNotPermitted || !strings.Contains(d.Message, "20000-20009") {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, needs("b", "y", 20001)); !d.Waits() || d.Message != "Port TCP/20001 of the hosts of proxy pool edge is held by another tenant: use another port." {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, needs("a", "z", 20001)); !d.Waits() || !strings.Contains(d.Message, "held by LoadBalancer x") {
		t.Fatalf("%+v", d)
	}
	if c := l.CountsOf("public"); c.Free != 9 || c.Granted != 1 {
		t.Fatalf("%+v", c)
	}
	if u := l.UsageOf("a"); u.Addresses != 0 || u.Ports != 1 || u.LoadBalancers != 1 {
		t.Fatalf("%+v", u)
	}
	// A wish for what a status showed is fulfilled by the port on all hosts.
	l.SetHosts(map[string][]netip.Addr{"edge": {one}}, nil)
	wish := needs("b", "y", 20002)
	wish.Wanted = []netip.Addr{one}
	if d := grantAll(l, wish); names(d) != "hosts-edge.ipv4.tcp.20002" || d.Reason != "" {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, wish); !d.Keeps() || d.Reason != "" {
		t.Fatalf("%+v", d)
	}
	// Families are those of the hosts.
	both := needs("b", "both", 20003)
	both.Families, both.Required = []Family{IPv4, IPv6}, true
	if d := grantAll(l, both); !d.Waits() || d.Reason != clusterv1.ReasonFamilyNotInPool {
		t.Fatalf("%+v", d)
	}
	l.SetHosts(map[string][]netip.Addr{"edge": {one, other}}, nil)
	if d := grantAll(l, both); names(d) != "hosts-edge.ipv4.tcp.20003 hosts-edge.ipv6.tcp.20003" {
		t.Fatalf("%+v", d)
	}
	// Fewer ports, no hosts: nothing is torn down.
	l.SetHosts(nil, nil)
	l.SetPools([]Pool{hostsPool("20008-20009")})
	for _, n := range []Needs{needs("a", "x", 20001), wish, both} {
		if d := grantAll(l, n); !d.Keeps() {
			t.Fatalf("%+v", d)
		}
	}
	if d := grantAll(l, needs("a", "x", 20001, 20002)); names(d) != "hosts-edge.ipv4.tcp.20001" || d.Reason != clusterv1.ReasonPortNotPermitted {
		t.Fatalf("%+v", d)
	}
	// The class's proxies must be the hosts'.
	elsewhere := needs("c", "n", 20008)
	elsewhere.ProxyPool = "internal"
	if d := grantAll(l, elsewhere); !d.Waits() || d.Reason != clusterv1.ReasonNotSupported || !strings.Contains(d.Message, "pool edge") {
		t.Fatalf("%+v", d)
	}
}

// A LoadBalancer of any family whose ports were granted before a host was known goes where hosts have addresses.
func TestPortsOfHostsMoveToTheFamilyThatTheHostsHave(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8::200")
	only := func(a netip.Addr) map[string][]netip.Addr { return map[string][]netip.Addr{"edge": {a}} }
	l := New()
	pool := hostsPool("20000-20009")
	pool.PerTenant = 1
	l.SetPools([]Pool{pool})
	web := needs("a", "web", 20001)
	grantAll(l, web)

	l.SetHosts(nil, only(v4)) // its host left, and may come back
	if d := grantAll(l, web); !d.Keeps() || names(d) != "hosts-edge.ipv4.tcp.20001" {
		t.Fatalf("%+v", d)
	}
	l.SetHosts(only(v6), only(v4))
	if d := grantAll(l, web); !d.Keeps() || names(d) != "hosts-edge.ipv4.tcp.20001" {
		t.Fatalf("%+v", d)
	}
	four := web
	four.Families = []Family{IPv4}
	l.SetHosts(only(v6), nil)
	if d := l.Decide(four, nil); !d.Keeps() || names(d) != "hosts-edge.ipv4.tcp.20001" {
		t.Fatalf("who asks for IPv4: %+v", d)
	}
	d := grantAll(l, web)
	if names(d) != "hosts-edge.ipv6.tcp.20001" || len(d.Surplus) != 1 || d.Surplus[0].Name != "hosts-edge.ipv4.tcp.20001" || d.Reason != "" {
		t.Fatalf("%+v", d)
	}
	l.Delete("hosts-edge.ipv4.tcp.20001")
	if d := l.Decide(web, nil); !d.Keeps() || names(d) != "hosts-edge.ipv6.tcp.20001" || len(d.Surplus) > 0 {
		t.Fatalf("once that is free: %+v", d)
	}

	// Where it can't be had there, it stays.
	l = New()
	l.SetPools([]Pool{hostsPool("20000-20009")})
	grantAll(l, web)
	l.SetHosts(only(v6), nil)
	grantAll(l, needs("b", "first", 20001))
	if d := grantAll(l, web); !d.Keeps() || names(d) != "hosts-edge.ipv4.tcp.20001" {
		t.Fatalf("%+v", d)
	}
}

// Who prefers both families has those that the hosts have: one that no host has any more is given up, and is had again.
func TestPreferredFamiliesOfHostsAreThoseThatTheHostsHave(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.200"), netip.MustParseAddr("2001:db8::200")
	edge := func(all ...netip.Addr) map[string][]netip.Addr { return map[string][]netip.Addr{"edge": all} }
	const four, six = "hosts-edge.ipv4.tcp.20001", "hosts-edge.ipv6.tcp.20001"
	l := New()
	pool := hostsPool("20000-20009")
	pool.PerTenant = 2
	l.SetPools([]Pool{pool})
	web := needs("a", "web", 20001)
	for _, c := range []struct {
		required    bool
		hosts, away map[string][]netip.Addr
		want        string
	}{
		{false, nil, nil, four + " " + six},
		{false, edge(v4), edge(v6), four + " " + six},
		{true, edge(v4), nil, four + " " + six},
		{false, edge(v4), nil, four},
		{false, edge(v4), nil, four}, // what is being released isn't taken back
		{false, edge(v4, v6), nil, four + " " + six},
		{false, edge(v6), nil, six},
		{false, edge(v4), nil, four}, // all that it had, for another
	} {
		of(c.required, IPv4, IPv6)(&web)
		l.SetHosts(c.hosts, c.away)
		for range 2 {
			if d := grantAll(l, web); names(d) != c.want || d.Reason != "" || d.Short {
				t.Fatalf("hosts %v, away %v: %+v; want %s", c.hosts, c.away, d, c.want)
			}
		}
		if c.want == six {
			l.Delete(four)
		}
	}

	// Where the other family can't be had, it keeps the one that it has.
	l = New()
	l.SetPools([]Pool{hostsPool("20000-20009")})
	l.SetHosts(edge(v6), nil)
	of(false, IPv4, IPv6)(&web)
	grantAll(l, web)
	l.SetHosts(edge(v4), nil)
	grantAll(l, needs("b", "first", 20001))
	if d := grantAll(l, web); names(d) != six || d.Reason != clusterv1.ReasonPortInUse {
		t.Fatalf("%+v", d)
	}
}

func TestPortsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		quota     Quota
		perTenant int
		want      string
	}{
		"ports":     {Quota{Unbounded, Unbounded, 2}, Unbounded, "spec.quota.ports"},
		"addresses": {Quota{Unbounded, 1, Unbounded}, Unbounded, "spec.quota.addresses"},
		"perTenant": {NoQuota, 2, "holds 2 ports of pool public, and may hold 2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			p := byPort(t, "192.0.2.0/30")
			p.PerTenant = c.perTenant
			l.SetPools([]Pool{p})
			grantAll(l, needs("other", "x", 443))
			n := func(name string, ports ...int32) Needs {
				n := needs("a", name, ports...)
				n.Owner.Quota = c.quota
				return n
			}
			if d := grantAll(l, n("x", 80, 81)); len(d.Steps) != 2 {
				t.Fatalf("%+v", d)
			}
			d := grantAll(l, n("y", 443))
			if !d.Waits() || d.Reason != clusterv1.ReasonQuotaExceeded || !strings.Contains(d.Message, c.want) {
				t.Fatalf("%+v", d)
			}
			// In place of another port one more is none more.
			if c.want != "holds 2 ports of pool public, and may hold 2" {
				if d := grantAll(l, n("x", 80, 82)); names(d) != "192.0.2.0.tcp.80 192.0.2.0.tcp.82" {
					t.Fatalf("%+v", d)
				}
			}
		})
	}
}

func TestWhileFrozenPortsStay(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "192.0.2.0/30")})
	grantAll(l, needs("a", "x", 80, 81))
	l.SetFrozen(map[string]Frozen{"public": {clusterv1.ReasonHubChanged, "the hub has changed"}})
	if d := grantAll(l, needs("a", "x", 81, 82)); names(d) != "192.0.2.0.tcp.80 192.0.2.0.tcp.81" || len(d.Surplus) > 0 || d.Reason != clusterv1.ReasonHubChanged {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, needs("b", "y", 90)); !d.Waits() || d.Reason != clusterv1.ReasonHubChanged {
		t.Fatalf("%+v", d)
	}
	if got := l.Adopt(What{Address: netip.MustParseAddr("192.0.2.3"), Port: Port{"TCP", 80}}, []Claim{{Proxy: "p", ProxyPool: "edge", What: What{Address: netip.MustParseAddr("192.0.2.3"), Port: Port{"TCP", 80}}, Holder: Holder{Ref{"b", "z"}, []Port{{"TCP", 80}}}}}, Adopters{}); got.Action != Create || got.Entry.Name != "192.0.2.3.tcp.80" || !slices.Equal(got.Entry.Holders[0].Ports, []Port{{"TCP", 80}}) {
		t.Fatalf("%+v", got)
	}
	// What is claimed whole of what is granted by port is for a person to see through.
	if got := l.Adopt(What{Address: netip.MustParseAddr("192.0.2.0")}, []Claim{{Proxy: "p", ProxyPool: "edge", What: What{Address: netip.MustParseAddr("192.0.2.0")}, Holder: Holder{Ref{"b", "z"}, []Port{{"TCP", 99}}}}}, Adopters{}); got.Action != Keep || len(got.Disagree) != 1 {
		t.Fatalf("%+v", got)
	}
}
