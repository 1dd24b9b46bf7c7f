package fleet

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestConnectsAreThoseOfOneTarget(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`# HELP fairlead_proxy_connects_total Connects.
# TYPE fairlead_proxy_connects_total counter
fairlead_proxy_connects_total{result="ok",target="node-1",tenant="prod-eu"} 7
fairlead_proxy_connects_total{result="refused",target="node-1",tenant="prod-eu"} 2
fairlead_proxy_connects_total{result="ok",target="node-1",tenant="prod-us"} 100
fairlead_proxy_connects_total{result="ok",target="node-2",tenant="prod-eu"} 1e+06
fairlead_proxy_connects_total_other{result="ok",target="node-1",tenant="prod-eu"} 5
`))
	}))
	defer s.Close()
	p := &Proxy{Program: &Program{Name: "edge-1"}, Metrics: netip.MustParseAddrPort(strings.TrimPrefix(s.URL, "http://"))}
	for target, want := range map[string]float64{"node-1": 9, "node-2": 1e6, "node-3": 0} {
		got, err := p.Connects(t.Context(), "prod-eu", target)
		if err != nil || got != want {
			t.Errorf("%s: %g, %v, want %g", target, got, err, want)
		}
	}
}
