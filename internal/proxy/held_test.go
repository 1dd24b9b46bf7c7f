package proxy

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
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
