package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// A namespace whose reports the hub does not take, in whatever way it does not, holds up nobody else.
func TestOneNamespaceWhoseWritesFailHoldsUpNobody(t *testing.T) {
	for how, within := range map[string]time.Duration{"unavailable": 2 * time.Second, "timeout": 2 * time.Second, "error": time.Second, "hang": 4 * time.Second, "broken": 2 * time.Second} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "")
				defer w.stop()
				w.list(class())
				settle(2 * time.Second)
				w.foreign(func(h *fakeHub) { h.trouble["bad"] = how })
				bad, good := targetGroup("bad", node(1, v1alpha1.TargetDraining)), targetGroup("good", node(1, v1alpha1.TargetDraining))
				w.set(bad)
				w.set(good)
				last := fmt.Sprint(w.version)
				settle(within)
				w.reports("good", "n1 Gone 0")
				if st := w.status(); !slices.Equal(st.Held, []string{"bad"}) || st.Through.TargetGroups != last {
					t.Errorf("status %+v, wanted [bad] held, and through %s", st, last)
				}

				// Nor while it is tried again, which is done more and more seldom.
				calls := w.hub.troubled
				for i := range 100 {
					good.Spec.Targets[0].Name, good.Generation = fmt.Sprint("n", i), int64(i+2)
					w.set(good)
					settle(time.Second)
					w.reports("good", fmt.Sprintf("n%d Gone 0", i))
					if got := w.status().Through.TargetGroups; got != fmt.Sprint(w.version) {
						t.Fatalf("through %s after a second, wanted %d", got, w.version)
					}
				}
				if n := w.hub.troubled - calls; n < 2 || n > 10 {
					t.Errorf("%d writes tried in 100 s", n)
				}
				w.foreign(func(h *fakeHub) { delete(h.trouble, "bad") })
				settle(70 * time.Second)
				w.reports("bad", "n1 Gone 0")
				if held := w.status().Held; len(held) != 0 {
					t.Errorf("held %v after it could be written", held)
				}
			})
		})
	}
}

// A hub that is away is no trouble of a namespace: once it is back, all is said at once.
func TestAHubThatWasAwayHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(2 * time.Second)
		w.hub.leave()
		w.set(targetGroup("shop", node(1, v1alpha1.TargetDraining)))
		settle(5 * time.Minute)
		w.hub.comeBack()
		settle(2500 * time.Millisecond)
		w.reports("shop", "n1 Gone 0")
		if st := w.status(); len(st.Held) != 0 || st.Through.TargetGroups != fmt.Sprint(w.version) {
			t.Errorf("status %+v", st)
		}
	})
}

// Nor is a hub that answers nobody, and later does.
func TestAHubThatHungHoldsNothingForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(2 * time.Second)
		w.foreign(func(h *fakeHub) { h.hung = true })
		w.set(targetGroup("shop", node(1, v1alpha1.TargetDraining)))
		settle(time.Minute)
		w.foreign(func(h *fakeHub) { h.hung = false })
		settle(10 * time.Second)
		w.reports("shop", "n1 Gone 0")
		if st := w.status(); len(st.Held) != 0 || st.Through.TargetGroups != fmt.Sprint(w.version) {
			t.Errorf("status %+v", st)
		}
	})
}

// A port that is refused in a namespace that takes no report is nobody's to learn of: nothing counts as served there
// before the namespace, made anew, has been told.
func TestWhatIsRefusedInANamespaceThatEndsIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		refuse := func(address string) {
			w.dp.mu.Lock()
			defer w.dp.mu.Unlock()
			w.dp.refuse[lb.Socket{Address: netip.MustParseAddr(address), Protocol: lb.TCP, Port: 80}] = "PortInUse"
		}
		refuse("192.0.2.1")
		refuse("192.0.2.2")
		w.foreign(func(h *fakeHub) { h.ending["shop"] = true })
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(class(), l, a, targetGroup("shop", node(1, "")))
		settle(time.Second)
		if st := w.status(); !slices.Equal(st.Held, []string{"shop"}) || st.Through.LoadBalancers == "" {
			t.Errorf("status %+v, wanted [shop] held", st)
		}
		// It is tried again only where there is something else to say.
		tried := w.hub.ended
		settle(20 * time.Second)
		if n := w.hub.ended - tried; n > 0 {
			t.Errorf("%d writes to a namespace that ends", n)
		}
		w.foreign(func(h *fakeHub) { delete(h.ending, "shop") })
		next, at := loadBalancer("shop", "api", "192.0.2.2")
		w.set(next)
		w.set(at)
		settle(time.Second)
		if r := w.report("shop"); r == nil || len(r.Refused) != 2 {
			t.Errorf("the report is %+v", r)
		}
		if held := w.status().Held; len(held) != 0 {
			t.Errorf("held %v after it could be written", held)
		}
	})
}
