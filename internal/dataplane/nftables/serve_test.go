package nftables_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/internal/lb"
)

func sortFrontends(f []*lb.Frontend) {
	slices.SortFunc(f, func(a, b *lb.Frontend) int { return a.ID.Compare(b.ID) })
}

func sortListeners(l []lb.Listener) {
	slices.SortFunc(l, func(a, b lb.Listener) int { return a.Socket.Compare(b.Socket) })
}

const vip = "198.18.0.1:80"

func simple(members ...lb.Member) *lb.Program {
	return newProgram().group("acme", "nodes", members...).pool("acme", "web", "nodes", 8080).
		frontend("acme", "web", lb.TCP, vip, "web").done()
}

func TestConnectionsSpreadOverMembers(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12, 13)
	w.apply(simple(member(11, false), member(12, false), member(13, false)))
	got := w.spread("", vip, 90)
	for _, m := range []string{"10.2.0.11", "10.2.0.12", "10.2.0.13"} {
		if got[m] < 12 {
			t.Errorf("spread = %v, want about 30 each", got)
		}
	}
	w.apply(simple(member(12, false), member(13, false)))
	if got := w.spread("", vip, 30); got["10.2.0.11"] > 0 {
		t.Errorf("a member that left gets connections: %v", got)
	}
}

func TestNoMemberOrNoPortIsRefused(t *testing.T) {
	w := newWorld(t)
	w.apply(simple())
	for _, to := range []string{vip, "198.18.0.1:81"} {
		if _, err := w.dial(w.client, "", to); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialing %s: %v, want it refused", to, err)
		}
	}
}

func TestOpenConnectionsStayWithTheirMember(t *testing.T) {
	w := newWorld(t)
	w.serve(8080, 11, 12)
	w.apply(simple(member(11, false)))
	s := w.mustDial("", vip)
	w.apply(simple(member(12, false)))
	if err := s.echo(); err != nil {
		t.Errorf("a connection to a member that left: %v", err)
	}
	if got := w.spread("", vip, 10); got["10.2.0.12"] != 10 {
		t.Errorf("new connections go to %v", got)
	}
}
