package nftables_test

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/testkit/netns"
	"github.com/ti-mo/conntrack"
)

// fill has conntrack know n established connections by mark over members of tenant-0.
func fill(b *testing.B, ns *netns.Namespace, n int, mark uint32) {
	err := ns.Do(func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range n {
			f := conntrack.NewFlow(6, conntrack.StatusConfirmed|conntrack.StatusAssured|conntrack.StatusSeenReply|conntrack.StatusDstNAT|conntrack.StatusDstNATDone,
				netip.AddrFrom4([4]byte{10, 9, byte(i >> 16), byte(i >> 8)}), netip.AddrFrom4([4]byte{198, 18, 0, byte(i % 100)}), uint16(1024+i&255), 80, 3600, mark)
			f.TupleReply.IP.SourceAddress = netip.AddrFrom4([4]byte{10, 3, 0, byte(1 + i%3)})
			f.TupleReply.Proto.SourcePort = uint16(30000 + i%100)
			f.ProtoInfo.TCP = &conntrack.ProtoInfoTCP{State: 3}
			if err := c.Create(f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCounting is the share of a processor that it takes to count the connections of a member that drains, for
// as long as it does.
func BenchmarkCounting(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		b.Run(fmt.Sprintf("connections=%d", n), func(b *testing.B) {
			ns := benchNamespace(b)
			dp := newIn(b, ns)
			p := fleet(100, 3)
			if _, err := dp.Apply(b.Context(), p, lb.Diff(nil, p)); err != nil {
				b.Fatal(err)
			}
			fill(b, ns, n, 0x1b000001)
			next := without(p)
			for b.Loop() {
				began, at := used(), time.Now()
				if _, err := dp.Apply(b.Context(), next, lb.Diff(p, next)); err != nil {
					b.Fatal(err)
				}
				for dp.Observe().Draining["tenant-0"][lb.MemberKey{UID: "uid-000", Address: netip.MustParseAddr("10.3.0.1")}] < int64(n/3) {
					<-dp.Changed()
				}
				b.ReportMetric(float64(time.Since(at).Milliseconds()), "ms-to-count")
				<-time.After(20*time.Second - time.Since(at))
				b.ReportMetric(100*float64(used()-began)/float64(time.Since(at)), "%-of-a-core")
			}
		})
	}
}
