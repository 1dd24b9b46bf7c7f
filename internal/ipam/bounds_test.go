package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
)

// TestWhatMovedIsBounded plays a tenant that has each LoadBalancer "moved to another hub" as soon as it is granted an address.
func TestWhatMovedIsBounded(t *testing.T) {
	byAddress, ports := pool(t, "public", 1, "192.0.2.0/24"), byPort(t, "192.0.2.0/24")
	perTenant, portsPerTenant := byAddress, ports
	perTenant.PerTenant, portsPerTenant.PerTenant = 3, 3
	for name, c := range map[string]struct {
		pool  Pool
		quota Quota
		want  string
	}{
		"loadBalancers":         {byAddress, Quota{3, Unbounded, Unbounded}, "The Tenant has 3 loadbalancers (3 of them moved to another hub), needs 1 more and may have 3"},
		"addresses":             {byAddress, Quota{Unbounded, 3, Unbounded}, "The Tenant has 3 addresses (3 of them moved to another hub)"},
		"ports":                 {byAddress, Quota{Unbounded, Unbounded, 3}, "The Tenant has 3 ports (3 of them moved to another hub)"},
		"perTenant":             {perTenant, NoQuota, "holds 3 addresses of pool public (3 of them moved to another hub)"},
		"loadBalancers by port": {ports, Quota{3, Unbounded, Unbounded}, "3 loadbalancers (3 of them moved"},
		"ports by port":         {ports, Quota{Unbounded, Unbounded, 3}, "3 ports (3 of them moved"},
		"perTenant by port":     {portsPerTenant, NoQuota, "holds 3 ports of pool public (3 of them moved"},
	} {
		t.Run(name, func(t *testing.T) {
			l := New()
			l.SetPools([]Pool{c.pool})
			n := needs("a", "same", 80) // of one name again and again
			n.Owner.Quota = c.quota
			var last Decision
			for i := range 20 {
				n.Ports[0].Number = int32(80 + i)
				if last = grantAll(l, n); last.Waits() {
					break
				}
				for _, s := range last.Steps {
					s.Entry.Phase = Moved
					l.Set(s.Entry)
				}
			}
			if got := len(l.All()); !last.Waits() || got != 3 {
				t.Fatalf("%d Addresses moved; last %+v", got, last)
			}
			if last.Reason != clusterv1.ReasonQuotaExceeded || !strings.Contains(last.Message, c.want) || !strings.Contains(last.Message, "Addresses that moved") {
				t.Fatalf("%s: %s", last.Reason, last.Message)
			}
			if u := l.UsageOf("a"); u.Addresses != 0 || u.Ports != 0 || u.LoadBalancers != 0 {
				t.Fatalf("what moved is held for another hub: %+v", u)
			}
			// A person deletes one.
			l.Delete(l.All()[0].Name)
			if d := grantAll(l, n); d.Waits() {
				t.Fatalf("%+v", d)
			}
			for _, e := range l.All() {
				l.Delete(e.Name)
			}
			if len(l.usage) > 0 {
				t.Fatalf("left behind: %+v", l.usage)
			}
		})
	}
}

// TestWhereItHasPortsNoAddressIsMore plays a second LoadBalancer, of whose port the first free one is on an address that its
// namespace has none of, and of which it may have no more.
func TestWhereItHasPortsNoAddressIsMore(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "192.0.2.1-192.0.2.2")})
	grantAll(l, needs("other", "x", 443))
	one := func(name string, ports ...int32) Needs {
		n := needs("a", name, ports...)
		n.Owner.Quota.Addresses = 1
		return n
	}
	if d := grantAll(l, one("x", 443)); names(d) != "192.0.2.2.tcp.443" {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, one("y", 80)); names(d) != "192.0.2.2.tcp.80" {
		t.Fatalf("%+v", d)
	}
	if d := grantAll(l, one("z", 443)); !d.Waits() || d.Reason != clusterv1.ReasonPortInUse {
		t.Fatalf("%+v", d)
	}
	// Where it can have it on no address of its own, the bound is what it is told.
	l.Delete("192.0.2.1.tcp.443")
	if d := grantAll(l, one("z", 443)); !d.Waits() || d.Reason != clusterv1.ReasonQuotaExceeded || !strings.Contains(d.Message, "quota.addresses") {
		t.Fatalf("%+v", d)
	}
}

// TestPortsAreExchangedAtTheBound plays changes of ports where the pool gives the tenant not one port more.
func TestPortsAreExchangedAtTheBound(t *testing.T) {
	l := New()
	p := byPort(t, "192.0.2.0/31")
	p.PerTenant = 2
	l.SetPools([]Pool{p})
	grantAll(l, needs("a", "x", 80, 90))
	d := grantAll(l, needs("a", "x", 81, 90))
	if names(d) != "192.0.2.0.tcp.81 192.0.2.0.tcp.90" || d.Reason != "" || len(d.Surplus) != 1 || d.Surplus[0].Name != "192.0.2.0.tcp.80" {
		t.Fatalf("%+v", d)
	}
	// While what it gave up is still being released, it holds more than it may, and gets no more by going on so.
	d = grantAll(l, needs("a", "x", 82, 90))
	if d.Reason != clusterv1.ReasonQuotaExceeded || len(l.All()) > 4 {
		t.Fatalf("%+v", d)
	}
	for _, e := range l.All() {
		if e.Phase == Releasing {
			l.Delete(e.Name)
		}
	}
	if d = grantAll(l, needs("a", "x", 82, 90)); names(d) != "192.0.2.0.tcp.82 192.0.2.0.tcp.90" || d.Reason != "" {
		t.Fatalf("%+v", d)
	}
	for _, e := range l.All() {
		if e.Phase == Releasing {
			l.Delete(e.Name)
		}
	}
	// All of them are exchanged, on the spot and by moving.
	if d = grantAll(l, needs("a", "x", 83, 91)); names(d) != "192.0.2.0.tcp.83 192.0.2.0.tcp.91" || len(d.Surplus) != 2 {
		t.Fatalf("%+v", d)
	}
	for _, e := range l.All() {
		if e.Phase == Releasing {
			l.Delete(e.Name)
		}
	}
	grantAll(l, needs("other", "y", 84, 92))
	if d = grantAll(l, needs("a", "x", 84, 92)); names(d) != "192.0.2.1.tcp.84 192.0.2.1.tcp.92" || len(d.Surplus) != 2 {
		t.Fatalf("%+v", d)
	}
	// While the pool is restored nothing goes, so that nothing comes for it either.
	p.Restoring = true
	l.SetPools([]Pool{p})
	for range 3 {
		for _, e := range l.All() {
			if e.Phase == Releasing {
				l.Delete(e.Name)
			}
		}
		if d = grantAll(l, needs("a", "x", 84, 94)); names(d) != "192.0.2.1.tcp.84" || d.Reason != clusterv1.ReasonQuotaExceeded || len(l.All()) != 4 {
			t.Fatalf("%+v", d)
		}
	}
	p.Restoring = false
	l.SetPools([]Pool{p})
	// More than it gives up is more.
	if d = grantAll(l, needs("a", "x", 84, 92, 93)); names(d) != "192.0.2.1.tcp.84 192.0.2.1.tcp.92" || d.Reason != clusterv1.ReasonQuotaExceeded {
		t.Fatalf("%+v", d)
	}
}

// TestTakenPortsAreToldAtOnce holds the answer to who waits for a port of a large pool to what a small pool's costs.
func TestTakenPortsAreToldAtOnce(t *testing.T) {
	l := New()
	l.SetPools([]Pool{byPort(t, "10.0.0.0/20")})
	r := mustRange(t, "10.0.0.0/20")
	for a, i := r.First, 0; r.Contains(a); a, i = a.Next(), i+1 {
		w := What{Address: a, Port: Port{"TCP", 443}}
		l.Set(Entry{Name: w.Name(), Address: a, Port: w.Port, Pool: "public", ProxyPool: "edge", Phase: Granted, Holders: []Holder{{Ref{"other", fmt.Sprint(i)}, []Port{w.Port}}}})
	}
	n := needs("a", "late", 443)
	var d Decision
	if allocs := testing.AllocsPerRun(10, func() { d = l.Decide(n, nil) }); allocs > 100 {
		t.Errorf("an answer made %v allocations", allocs)
	}
	if d.Reason != clusterv1.ReasonPortInUse || !strings.Contains(d.Message, "on each address of address pool public") {
		t.Fatalf("%+v", d)
	}
	// Where it is free on one address that has none of its other ports, the refusals aren't worded each.
	last := netip.MustParseAddr("10.0.15.255")
	l.Delete(What{Address: last, Port: Port{"TCP", 443}}.Name())
	e := Entry{Address: last, Port: Port{"TCP", 80}, Pool: "public", ProxyPool: "edge", Phase: Granted, Holders: []Holder{{Ref{"other", "x"}, []Port{{"TCP", 80}}}}}
	w := e.What()
	e.Name = w.Name()
	l.Set(e)
	n.Ports = append(n.Ports, Port{"TCP", 80})
	if allocs := testing.AllocsPerRun(10, func() { d = l.Decide(n, nil) }); allocs > 100 {
		t.Errorf("an answer made %v allocations", allocs)
	}
	if d.Reason != clusterv1.ReasonPortInUse {
		t.Fatalf("%+v", d)
	}
	// What is its own is not in its way.
	n.Ports = []Port{{"TCP", 443}}
	l.Set(Entry{Name: "10.0.0.7.tcp.443", Address: netip.MustParseAddr("10.0.0.7"), Port: n.Ports[0], Pool: "public", ProxyPool: "edge", Phase: Releasing, Holders: []Holder{{n.Ref, n.Ports}}})
	if d := l.Decide(n, nil); names(d) != "10.0.0.7.tcp.443" {
		t.Fatalf("%+v", d)
	}
}
