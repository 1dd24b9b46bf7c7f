package proxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNothingIsServedFromAnIncompleteView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		for _, r := range []Resource{Addresses, LoadBalancers, Classes, TargetGroups} {
			var objects []Object
			for _, o := range []Object{l, a, class()} {
				if resourceOf(o) == r {
					objects = append(objects, o)
				}
			}
			w.proxy.inbox.Replace(r, objects, w.next())
			settle(2 * time.Second)
			if _, applies := w.dp.served(); applies != 0 {
				t.Fatalf("applied after %s, with others not yet listed", r)
			}
		}
		if w.proxy.Ready() || w.status().Phase != v1alpha1.ProxyStarting {
			t.Errorf("ready %v, phase %q before the first view", w.proxy.Ready(), w.status().Phase)
		}
		w.proxy.inbox.Replace(Tenants, nil, w.next())
		settle(time.Millisecond)
		w.serves("192.0.2.1:80/TCP")
		if got := w.status(); got.Phase != v1alpha1.ProxyServing || got.Frontends != 1 || got.HubUID != "hub-uid" || got.Through.Tenants != "105" {
			t.Errorf("status %+v", got)
		}
	})
}

func TestNotBeforeItIsRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unstarted(t)
		w.hub.leave()
		w.start("")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(3 * time.Second)
		w.serves()
		w.hub.comeBack()
		settle(3 * time.Second)
		w.serves("192.0.2.1:80/TCP")
	})
}

func TestOneChangeIsAppliedAtOnceAndManyTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.dp.slow = 10 * time.Millisecond
		w.list(class())
		settle(time.Second)
		_, before := w.dp.served()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.set(l)
		w.set(a)
		settle(25 * time.Millisecond)
		w.serves("192.0.2.1:80/TCP")

		// A hundred while one Apply runs are one Apply more.
		for i := range 100 {
			l, a := loadBalancer("shop", fmt.Sprint("web", i), fmt.Sprint("192.0.2.", 100+i))
			w.set(l)
			w.set(a)
			if i == 0 {
				synctest.Wait()
			}
		}
		settle(25 * time.Millisecond)
		got, applies := w.dp.served()
		if len(got) != 101 {
			t.Errorf("%d sockets served, wanted 101", len(got))
		}
		if n := applies - before; n > 4 {
			t.Errorf("%d applies for 101 LoadBalancers, wanted at most 4", n)
		}
	})
}

func TestStatusWritesOfOthersCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop"))
		settle(5 * time.Second)
		statuses := w.statuses()
		_, applies := w.dp.served()
		for range 50 {
			o := l.DeepCopy()
			o.Status.ActiveTargets = []string{"x"}
			w.set(o)
			settle(100 * time.Millisecond)
		}
		w.proxy.inbox.Bookmark(Tenants, w.next())
		last := fmt.Sprint(w.version)
		settle(20 * time.Second)
		if _, now := w.dp.served(); now != applies || w.statuses() != statuses {
			t.Errorf("%d applies and %d writes of status for nothing", now-applies, w.statuses()-statuses)
		}
		lease := w.hub.leases[Key{v1alpha1.SystemNamespace, "edge-1"}]
		if got := lease.Annotations[v1alpha1.AnnotationThrough]; !strings.Contains(got, last) {
			t.Errorf("lease says %s, wanted the bookmark's version %s in it", got, last)
		}
	})
}

func TestARelistRemovesWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		l2, a2 := loadBalancer("shop", "api", "192.0.2.2")
		w.list(l, a, l2, a2, class())
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP", "192.0.2.2:80/TCP")
		w.proxy.inbox.Replace(Addresses, []Object{a2.DeepCopy()}, w.next())
		w.proxy.inbox.Replace(LoadBalancers, []Object{l2.DeepCopy()}, w.next())
		settle(time.Millisecond)
		w.serves("192.0.2.2:80/TCP")
	})
}

func TestAFailingDataplaneIsTriedAgainAndThroughWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(time.Second)
		through := w.status().Through
		w.dp.fail(1)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.set(l)
		w.set(a)
		settle(5 * time.Second)
		st := w.status()
		if st.Through != through {
			t.Errorf("through moved to %+v though nothing was applied", st.Through)
		}
		if c := st.Conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != ReasonApplyFailed {
			t.Errorf("condition %+v", c)
		}
		w.dp.fail(0)
		settle(10 * time.Second) // twice the longest wait between two tries
		w.serves("192.0.2.1:80/TCP")
		if st := w.status(); st.Through == through || st.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("status after it works again: %+v", st)
		}
	})
}

// With one in ten calls failing on each side, the end is the same.
func TestUnreliableHubAndDataplane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		defer w.stop()
		w.hub.fail(0.1)
		w.dp.fail(0.1)
		w.list(class())
		var want []string
		for i := range 50 {
			l, a := loadBalancer(fmt.Sprint("t", i%7), fmt.Sprint("web", i), fmt.Sprint("192.0.2.", 100+i))
			w.set(l)
			w.set(a)
			settle(30 * time.Millisecond)
			if i%3 == 0 {
				w.delete(l)
				a.Spec.Phase, a.Generation = v1alpha1.AddressReleasing, 2
				w.set(a)
			} else {
				want = append(want, fmt.Sprint("192.0.2.", 100+i, ":80/TCP"))
			}
		}
		settle(10 * time.Second)
		w.serves(want...)
		if st := w.status(); int(st.Frontends) != len(want) || st.Through.LoadBalancers == "" {
			t.Errorf("status %+v, wanted %d frontends", st, len(want))
		}
		gone := 0
		for i := range 7 {
			if r := w.report(fmt.Sprint("t", i)); r != nil {
				gone += len(r.Addresses)
			}
		}
		if gone != 17 {
			t.Errorf("%d addresses are reported gone, wanted 17", gone)
		}
	})
}

func TestFencedProxyServesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(time.Second)
		fence := func(f *v1alpha1.Fence) {
			w.hub.mu.Lock()
			px := w.hub.proxies["edge-1"].DeepCopy()
			px.Spec.Fenced = f
			w.hub.put(px)
			w.hub.mu.Unlock()
			settle(time.Second)
		}
		fence(&v1alpha1.Fence{By: "me", Reason: "burnt"})
		w.serves()
		if st := w.status(); st.Through != (v1alpha1.Through{}) || st.Frontends != 0 || st.Conditions[0].Reason != ReasonFenced {
			t.Errorf("status of a fenced proxy: %+v", st)
		}
		fence(nil)
		w.serves("192.0.2.1:80/TCP")
		if st := w.status(); st.Frontends != 1 || st.Conditions[0].Reason != ReasonServing || st.Through.LoadBalancers == "" {
			t.Errorf("status after the fence was lifted: %+v", st)
		}
	})
}

func TestProbesAreThoseOfMembersThatMayGetConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		l2, a2 := loadBalancer("shop", "api", "192.0.2.2")
		w.list(l, a, l2, a2, class(), targetGroup("shop",
			v1alpha1.Target{Name: "n1", UID: "u1", Addresses: []string{"10.0.0.1"}},
			v1alpha1.Target{Name: "n2", UID: "u2", Addresses: []string{"10.0.0.2"}, State: v1alpha1.TargetDraining}))
		settle(time.Second)
		w.checker.mu.Lock()
		defer w.checker.mu.Unlock()
		var got []netip.Addr
		for _, p := range w.checker.probes {
			got = append(got, p.Address)
		}
		if !slices.Equal(got, []netip.Addr{netip.MustParseAddr("10.0.0.1")}) {
			t.Errorf("probes %v, wanted one of 10.0.0.1, shared by two pools", w.checker.probes)
		}
	})
}

func TestARefusedPortIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		socket := lb.Socket{Address: netip.MustParseAddr("192.0.2.1"), Protocol: lb.TCP, Port: 80}
		w.dp.refuse[socket] = "PortInUse"
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(100 * time.Millisecond)
		r := w.report("shop")
		if r == nil || len(r.Refused) != 1 || r.Refused[0].LoadBalancer != "web" || r.Refused[0].Problem.Reason != "PortInUse" || r.Boot != w.proxy.Boot() {
			t.Fatalf("report %+v", r)
		}
		if st := w.status(); st.Frontends != 0 || st.Reports != r.ResourceVersion {
			t.Errorf("status %+v, report's version %s", st, r.ResourceVersion)
		}
		w.dp.mu.Lock()
		delete(w.dp.refuse, socket)
		w.dp.mu.Unlock()
		settle(1500 * time.Millisecond)
		if r := w.report("shop"); r != nil {
			t.Errorf("report %+v after the port could be bound", r)
		}
		_, applies := w.dp.served()
		settle(30 * time.Second)
		if _, now := w.dp.served(); now != applies {
			t.Errorf("%d applies at rest", now-applies)
		}
	})
}
