package nftables

import (
	"net/netip"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/dataplane"
	"fairlead.dev/fairlead/internal/lb"
)

// A member that drains is drained when all connections were looked at and none was its own: not before the first count, and not by a
// look that was interrupted, in which some may be missing.
func TestNoneIsSaidOnlyWhenAllWereSeen(t *testing.T) {
	now := time.Now()
	member := lb.MemberKey{UID: "m", Address: netip.MustParseAddr("192.0.2.1")}
	key := leaverKey{address: member.Address}
	at := closerKey{socket: lb.Socket{Address: netip.MustParseAddr("198.51.100.1"), Protocol: lb.TCP, Port: 80}}
	frontend := lb.FrontendID{Address: at.socket.Address, Port: 80}
	d := &Dataplane{leaving: newLeaving(), byMark: map[mark]*spread{}, changed: make(chan struct{}, 1)}
	d.observation.Store(&dataplane.Observation{})
	d.leaving.leavers[key] = &leaver{tenant: "t", member: member, since: now}
	d.leaving.closers[at] = &closer{closerKey: at, id: frontend, since: now}
	free := &spread{mark: markBase}
	d.byMark[free.mark] = free
	d.publish()
	shows := func(when string, want int64) {
		t.Helper()
		o := d.Observe()
		if n := o.Draining["t"][member]; n != want {
			t.Errorf("%s: the member has %d connections, want %d", when, n, want)
		}
		if n := o.Closing[frontend]; n != want {
			t.Errorf("%s: the frontend has %d connections, want %d", when, n, want)
		}
	}
	sweeps := func(n int64, interrupted bool) found {
		s := &sweep{d: d, now: now, missing: interrupted, leavers: map[leaverKey]int64{key: n}, closers: map[closerKey]int64{at: n}, perMark: map[mark]int64{free.mark: n}}
		return s.end()
	}
	shows("before the first count", 1)
	for range 2 * quietSweeps {
		if f := sweeps(0, true); !f.active {
			t.Error("nobody looks again")
		}
	}
	shows("none was seen of some", 1)
	sweeps(8, false)
	shows("counted", 8)
	for range 2 * quietSweeps {
		sweeps(0, true)
	}
	shows("none was seen of some, after a count", 8)
	if free.quiet != 0 {
		t.Error("its mark is about to be given to others")
	}
	sweeps(3, true)
	shows("some were seen", 3)
	sweeps(0, false)
	shows("none is left", 0)
}
