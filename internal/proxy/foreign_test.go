package proxy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"net/netip"
)

// refusing is a world in which web's only port is refused, and which says so.
func refusing(t *testing.T) *world {
	w := newWorld(t, "")
	w.dp.refuse[lb.Socket{Address: netip.MustParseAddr("192.0.2.1"), Protocol: lb.TCP, Port: 80}] = "PortInUse"
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	w.list(l, a, class())
	settle(2 * time.Second)
	if r := w.report("shop"); r == nil || len(r.Refused) != 1 {
		t.Fatalf("report %+v", r)
	}
	return w
}

// foreign does something to the hub that the proxy did not.
func (w *world) foreign(do func(h *fakeHub)) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	do(w.hub)
}

func (w *world) stillRefused(when string) {
	w.t.Helper()
	r := w.report("shop")
	if r == nil || len(r.Refused) != 1 || r.Boot != w.proxy.Boot() {
		w.t.Errorf("%s: report %+v, wanted the refusal", when, r)
		return
	}
	if st := w.status(); st.Reports != r.ResourceVersion {
		w.t.Errorf("%s: status covers reports up to %s, the report is %s", when, st.Reports, r.ResourceVersion)
	}
}

func TestAReportThatSomebodyDeletesIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusing(t)
		defer w.stop()
		w.foreign(func(h *fakeHub) { h.dropReport(Key{"shop", "edge-1"}) })
		settle(100 * time.Millisecond)
		w.stillRefused("deleted")
	})
}

func TestAReportThatSomebodyChangesIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusing(t)
		defer w.stop()
		change := func() {
			w.foreign(func(h *fakeHub) {
				r := h.reports[Key{"shop", "edge-1"}].DeepCopy()
				r.Refused = nil
				h.putReport(r)
			})
		}
		change()
		settle(100 * time.Millisecond)
		w.stillRefused("changed")

		// Who does so all the time is contradicted once a second.
		before := w.hub.version
		for range 100 {
			change()
			settle(100 * time.Millisecond)
		}
		settle(2 * time.Second)
		w.stillRefused("changed all the time")
		if n := w.hub.version - before - 100; n > 40 {
			t.Errorf("%d writes in ten seconds against somebody who writes ten times a second", n)
		}
	})
}

func TestWhatHappenedToReportsBetweenTwoWatchesIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refusing(t)
		defer w.stop()
		w.foreign(func(h *fakeHub) {
			delete(h.reports, Key{"shop", "edge-1"})
			h.own.ReplaceReports(nil, h.next())
		})
		settle(100 * time.Millisecond)
		w.stillRefused("missing in a list")

		// A list as old as the last write says nothing about it.
		settle(5 * time.Second)
		before := w.report("shop").ResourceVersion
		w.foreign(func(h *fakeHub) { h.own.ReplaceReports(nil, "1001") })
		settle(2 * time.Second)
		if after := w.report("shop").ResourceVersion; after != before {
			t.Errorf("an old list causes a write: version %s, was %s", after, before)
		}
	})
}

func TestALostGoneIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class(), targetGroup("shop", node(1, v1alpha1.TargetDraining)))
		settle(time.Minute)
		w.reports("shop", "n1 Gone 0")
		w.foreign(func(h *fakeHub) { h.dropReport(Key{"shop", "edge-1"}) })
		settle(100 * time.Millisecond)
		w.reports("shop", "n1 Gone 0")
	})
}

func TestAStatusThatSomebodyChangesIsWrittenAgain(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Proxy){
		"emptied":  func(px *v1alpha1.Proxy) { px.Status = v1alpha1.ProxyStatus{} },
		"moved on": func(px *v1alpha1.Proxy) { px.Status.Through.LoadBalancers = "999999" },
		"unheld":   func(px *v1alpha1.Proxy) { px.Status.Reports = "" },
		"replaced": func(px *v1alpha1.Proxy) { px.UID, px.Status = "another", v1alpha1.ProxyStatus{} },
		"pool":     func(px *v1alpha1.Proxy) { px.Spec.Pool = "core" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := refusing(t)
				defer w.stop()
				w.opened()
				settle(5 * time.Second)
				want := w.status()
				w.foreign(func(h *fakeHub) {
					px := h.proxies["edge-1"].DeepCopy()
					change(px)
					if name == "replaced" {
						h.own.Deleted(h.next())
					}
					h.put(px)
				})
				settle(time.Second)
				got := w.status()
				if got.Seq <= want.Seq && name != "emptied" && name != "replaced" {
					t.Errorf("seq %d, was %d", got.Seq, want.Seq)
				}
				got.Seq = want.Seq
				for i := range got.Conditions {
					got.Conditions[i].LastTransitionTime = want.Conditions[i].LastTransitionTime
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("status %+v, wanted %+v", got, want)
				}
				w.hub.mu.Lock()
				defer w.hub.mu.Unlock()
				if pool := w.hub.proxies["edge-1"].Spec.Pool; pool != "edge" {
					t.Errorf("pool %s", pool)
				}
			})
		})
	}
}
