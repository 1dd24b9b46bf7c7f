package proxy

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// A port that is refused for good costs less and less; a change of its LoadBalancer is tried at once.
func TestAPortThatIsRefusedForGoodIsTriedMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.dp.refuse[lb.Socket{Address: netip.MustParseAddr("192.0.2.1"), Protocol: lb.TCP, Port: 80}] = "PortNotPermitted"
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(2 * time.Minute)
		applies := func() int { _, n := w.dp.served(); return n }
		before := applies()
		settle(10 * time.Minute)
		if n := applies() - before; n < 30 || n > 90 {
			t.Errorf("%d applies in ten minutes for one refused port", n)
		}
		before = applies()
		l.Spec.Ports[0].Port, l.Generation = 8080, 2
		a.Spec.Holders[0].Ports, a.Generation = []string{"TCP/8080"}, 2
		w.set(l)
		w.set(a)
		settle(10 * time.Millisecond)
		if n := applies() - before; n == 0 || n > 2 {
			t.Errorf("%d applies at once for the change", n)
		}
		if r := w.report("shop"); r != nil && len(r.Refused) > 0 {
			t.Errorf("report %+v", r)
		}
	})
}

// What goes on elsewhere neither costs a refused port tries nor puts them off.
func TestOthersChangesDoNotPutOffARefusedPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		socket := lb.Socket{Address: netip.MustParseAddr("192.0.2.1"), Protocol: lb.TCP, Port: 80}
		w.dp.refuse[socket] = "PortInUse"
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(20 * time.Second)
		for i := range 100 {
			if i == 10 {
				w.dp.mu.Lock()
				delete(w.dp.refuse, socket)
				w.dp.mu.Unlock()
			}
			l, a := loadBalancer("shop", fmt.Sprint("web", i), fmt.Sprint("192.0.2.", 100+i))
			w.set(l)
			w.set(a)
			settle(500 * time.Millisecond)
		}
		if r := w.report("shop"); r != nil && len(r.Refused) > 0 {
			t.Errorf("still refused: %+v", r.Refused)
		}
	})
}

// While Apply fails, events that change nothing don't cause tries; a change is tried at once, in bounds.
func TestAFailingApplyIsNotTriedAtEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", node(1, "")))
		settle(time.Second)
		applies := func() int { _, n := w.dp.served(); return n }
		w.dp.fail(1)
		l.Spec.Ports[0].TargetPort, l.Generation = 9090, 2
		w.set(l)
		settle(time.Minute)
		before := applies()
		for i := range 1000 {
			o := l.DeepCopy()
			o.Annotations = map[string]string{"n": fmt.Sprint(i)}
			w.set(o)
			w.checker.find([]lb.Verdict{lb.Healthy, lb.Unhealthy}[i%2])
			settle(10 * time.Millisecond)
		}
		if n := applies() - before; n > 10 {
			t.Errorf("%d applies in ten seconds while Apply fails and nothing that is served changes", n)
		}
		before = applies()
		l.Spec.Ports[0].TargetPort, l.Generation = 9091, 3
		w.set(l)
		settle(failedFrom + 10*time.Millisecond) // The last try may have been just now.
		if n := applies() - before; n != 1 {
			t.Errorf("%d applies at once for a change", n)
		}
		before = applies()
		for i := range 100 {
			l.Spec.Ports[0].TargetPort, l.Generation = int32(1000+i), int64(4+i)
			w.set(l)
			settle(10 * time.Millisecond)
		}
		if n := applies() - before; n > 12 {
			t.Errorf("%d applies in a second of changes while Apply fails", n)
		}
		w.dp.fail(0)
		settle(6 * time.Second)
		if st := w.status(); st.Through.LoadBalancers != fmt.Sprint(w.version) {
			t.Errorf("through %+v after it works again, wanted %d", st.Through, w.version)
		}
	})
}
