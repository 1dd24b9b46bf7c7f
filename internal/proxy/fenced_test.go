package proxy

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
)

// A fenced proxy serves nothing before its hub says otherwise, whichever that is.

// servesNothingFor fails the test if anything is served, at any moment of a time, or named as served.
func (w *world) servesNothingFor(d time.Duration) {
	w.t.Helper()
	for range d / time.Millisecond {
		settle(time.Millisecond)
		if got, _ := w.dp.served(); len(got) > 0 {
			w.t.Fatalf("it serves %v", got)
		}
		for _, ns := range []string{"shop", "lab", "ops"} {
			w.wantAgainst(ns)
		}
	}
}

func TestAFencedProxyServesNothingBeforeAReplacedHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, t.TempDir())
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
		settle(time.Second)
		w.lost()
		w.hub.replace("another")
		w.opened()
		w.servesNothingFor(3 * time.Second)
		for r := range resources {
			if r == Addresses {
				continue
			}
			w.proxy.inbox.Replace(r, nil, w.next())
			w.servesNothingFor(100 * time.Millisecond)
		}
		w.proxy.inbox.Replace(Addresses, nil, w.next())
		w.servesNothingFor(time.Second)
		// This one has not fenced it, and is followed.
		w.set(f.web)
		w.set(f.webAt)
		w.set(f.class_)
		settle(time.Second)
		w.serves(ours[0])
		if st := w.status(); st.HubUID != "another" || st.Through == (v1alpha1.Through{}) {
			t.Errorf("status %+v", st)
		}
	})
}

func TestAFencedProxyServesNothingBeforeARestoredHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, t.TempDir())
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
		settle(time.Second)
		old := w.hub.copy()
		w.fence(nil)
		settle(time.Second)
		w.serves(ours...)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale again"})
		settle(time.Second)
		w.lost()
		w.hub.restore(old)
		w.hub.mu.Lock()
		w.hub.readOnly = true
		w.hub.mu.Unlock()
		w.proxy.inbox.Lost(OwnProxy)
		w.servesNothingFor(time.Second)
		// The resources are known before the own Proxy.
		w.list(f.all()...)
		w.servesNothingFor(time.Second)
		w.hub.mu.Lock()
		w.hub.readOnly = false
		w.hub.mu.Unlock()
		w.servesNothingFor(3 * time.Second)
		if era, _ := w.proxy.inbox.Era(); era != 1 {
			t.Errorf("era %d: it does not know that the hub was restored", era)
		}
		w.fence(nil)
		settle(time.Second)
		w.serves(ours...)
	})
}

// All of the other hub may be known before the loop hears that it is another: nothing is claimed of what it did not run.
func TestAFencedProxyDoesNotFreeze(t *testing.T) {
	f := newFleet()
	in := newInbox(func(Resource, string) {})
	o := Options{Pool: "edge", NewBuilder: func() Builder { return build.New(build.Options{ProxyPool: "edge"}) }, Logger: slog.New(slog.DiscardHandler)}
	l := newLoop(o, in, newOwn(in), newMailbox(), nil, &atomic.Bool{})
	in.Wrote(0, "one", "px", 5)
	list := func(version, hub string, objects ...Object) {
		for r := range resources {
			var all []Object
			for _, x := range objects {
				if resourceOf(x) == r {
					all = append(all, x)
				}
			}
			in.Replace(r, all, version)
		}
		q, _ := in.Question()
		in.Answer(q, Answer{HubUID: hub, Proxy: &v1alpha1.Proxy{}})
	}
	in.memory.ProxyUID = ""
	list("10", "one", f.all()...)
	l.takeIn(ownState{Known: true})
	l.fenced = &v1alpha1.Fence{By: "manager"}
	list("20", "two")
	list("20", "two")
	l.takeIn(ownState{Known: true})
	if s := l.picture.state; s != nil || l.picture.behind || len(l.picture.shown[Addresses]) > 0 {
		t.Errorf("frozen %+v, behind %v, %d addresses", s, l.picture.behind, len(l.picture.shown[Addresses]))
	}
}

// Whatever the own Proxy's watch says while the hub is in doubt, it lifts no fence.
func TestAHubInDoubtLiftsNoFence(t *testing.T) {
	for name, says := range map[string]func(own *Own){
		"it lacks the Proxy": func(own *Own) {
			if err := (ownStore{own, own.era}).Replace(nil, "9000"); err != nil {
				panic(err)
			}
		},
		"it has one that is not fenced": func(own *Own) {
			px := &v1alpha1.Proxy{}
			px.Name, px.ResourceVersion = "edge-1", "9000"
			if err := (ownStore{own, own.era}).Replace([]any{px}, "9000"); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				w := newWorld(t, t.TempDir())
				defer w.stop()
				w.opened()
				w.list(f.all()...)
				settle(time.Second)
				w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
				settle(time.Second)
				w.hub.mu.Lock()
				w.hub.nameless = true
				w.hub.mu.Unlock()
				says(w.proxy.own)
				w.servesNothingFor(time.Second)
				w.hub.mu.Lock()
				w.hub.nameless = false
				w.hub.mu.Unlock()
				w.fence(nil)
				settle(5 * time.Second)
				w.serves(ours...)
			})
		})
	}
}

// A fence counts from when it was read, though the data plane took nothing before the hub changed.
func TestAFenceThatWasNotAppliedIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, t.TempDir())
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.dp.fail(1)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
		settle(time.Second)
		w.serves(ours...)
		w.lost()
		w.hub.replace("another")
		w.opened()
		settle(time.Second)
		for r := range resources {
			w.proxy.inbox.Replace(r, nil, w.next())
		}
		settle(time.Second)
		w.dp.fail(0)
		settle(10 * time.Second)
		w.servesNothingFor(time.Second)
	})
}
