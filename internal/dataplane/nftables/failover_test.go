package nftables_test

import (
	"errors"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

// TestAnotherProxysConnectionsGoOn where the member sees the client: a host that knows nothing of them sends them to
// the same member. That another host takes over is, for this one, as if it had forgotten all.
func TestAnotherProxysConnectionsGoOn(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12, 13)
	w.apply(both(lb.TCP, func(p *lb.Pool) { p.KeepClient = true }, 11, 12, 13))
	var open []*session
	for range 20 {
		open = append(open, w.mustDial("", vip), w.mustDial("", vip6))
	}
	w.run(w.host, "conntrack", "-F")
	for _, s := range open {
		for range 3 {
			if err := s.echo(); err != nil {
				t.Fatalf("connection to %s: %v", s.member, err)
			}
		}
	}
}

// TestAnotherProxysConnectionsAreResetAtOnce where members see this host's address: they would take none from it.
func TestAnotherProxysConnectionsAreResetAtOnce(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11)
	w.apply(both(lb.TCP, asIs, 11))
	for _, to := range []string{vip, vip6} {
		s := w.mustDial("", to)
		w.run(w.host, "conntrack", "-F")
		if err := s.echo(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v, want a reset", to, err)
		}
	}
}
