package nftables_test

import (
	"net/netip"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsAreReadFromTheKernel(t *testing.T) {
	w := newWorld(t)
	w.dp.Close(w.ctx)
	r := prometheus.NewPedanticRegistry()
	w.options.Registerer = r
	w.start()
	w.serve(8080, 11)
	w.apply(both(lb.TCP, asIs, 11))
	w.spread("", vip, 3)
	w.spread("", vip6, 2)
	w.dial(w.client, "", "198.18.0.1:99")
	expect := func(text string, names ...string) {
		t.Helper()
		if err := testutil.GatherAndCompare(r, strings.NewReader(text), names...); err != nil {
			t.Error(err)
		}
	}
	expect(`
# HELP fairlead_proxy_accepted_total Clients' connections accepted.
# TYPE fairlead_proxy_accepted_total counter
fairlead_proxy_accepted_total{loadbalancer="web",tenant="acme"} 5
# HELP fairlead_nftables_frontend_connections_total New connections by frontend, those for which there was no member among them.
# TYPE fairlead_nftables_frontend_connections_total counter
fairlead_nftables_frontend_connections_total{address="198.18.0.1",loadbalancer="web",port="80",protocol="TCP",tenant="acme"} 3
fairlead_nftables_frontend_connections_total{address="2001:db8::1",loadbalancer="web",port="80",protocol="TCP",tenant="acme"} 2
`, "fairlead_proxy_accepted_total", "fairlead_nftables_frontend_connections_total")
	expect(`
# HELP fairlead_nftables_turned_away_total Packets turned away, by cause: nobody (no such port, or no member), denied (not among the sources), astray (of no connection that is known).
# TYPE fairlead_nftables_turned_away_total counter
fairlead_nftables_turned_away_total{because="astray"} 0
fairlead_nftables_turned_away_total{because="denied"} 0
fairlead_nftables_turned_away_total{because="nobody"} 1
`, "fairlead_nftables_turned_away_total")
	// Its element is another one after this, and begins anew.
	w.apply(both(lb.TCP, byClient, 11))
	w.spread("", vip, 1)
	expect(`
# HELP fairlead_proxy_accepted_total Clients' connections accepted.
# TYPE fairlead_proxy_accepted_total counter
fairlead_proxy_accepted_total{loadbalancer="web",tenant="acme"} 6
`, "fairlead_proxy_accepted_total")
	limited := both(lb.TCP, byClient, 11)
	for _, f := range limited.Tenants["acme"].Frontends {
		f.Sources = []netip.Prefix{netip.MustParsePrefix("10.1.0.3/32"), netip.MustParsePrefix("fd01::/64")}
	}
	w.apply(limited)
	w.spread("10.1.0.3", vip, 2)
	w.dial(w.client, "10.1.0.2", vip)
	expect(`
# HELP fairlead_proxy_accepted_total Clients' connections accepted.
# TYPE fairlead_proxy_accepted_total counter
fairlead_proxy_accepted_total{loadbalancer="web",tenant="acme"} 8
`, "fairlead_proxy_accepted_total")
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	w.dp.Close(w.ctx)
	if n, err := testutil.GatherAndCount(r); err != nil || n > 0 {
		t.Errorf("after close there are %d series, %v", n, err)
	}
}
