package proxy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARestoredHubFreezesWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.list(f.class_, f.shop)
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.serves(ours...)
		w.members("10.0.0.1")
		w.wantAgainst("shop", "192.0.2.1 web TCP/80")
		w.wantAgainst("lab", "192.0.2.2 api TCP/80")
		w.wantAgainst("ops", "192.0.2.3 own TCP/80")
		settle(time.Hour)
		w.serves(ours...)

		// The manager adopts it, one by one.
		w.set(f.webAt)
		w.set(f.ownAt)
		settle(time.Second)
		w.wantAgainst("shop")
		w.wantAgainst("lab", "192.0.2.2 api TCP/80")
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.set(f.apiAt)
		settle(time.Second)
		// The ledger has thawed. What is of no Tenant, and is gone, is held by it; the Tenants' agents are waited for.
		if st := w.status(); !slices.Equal(st.Held, []string{"lab", "shop"}) || st.Through == (v1alpha1.Through{}) || w.condition().Status != metav1.ConditionTrue {
			t.Fatalf("status %+v once the ledger has thawed", st)
		}
		w.serves(ours...)
		// An agent that is through changed its Service meanwhile.
		web := f.web.DeepCopy()
		web.Generation, web.Spec.Ports[0].TargetPort = 2, 9090
		w.set(web)
		w.set(tenant("shop", 1, 0))
		settle(time.Second)
		w.serves(ours...)
		w.members("10.0.0.1")
		w.set(f.webNodes)
		w.set(tenant("shop", 1, 1))
		settle(time.Second)
		w.members("10.0.0.1")
		if st := w.status(); !slices.Equal(st.Held, []string{"lab"}) || st.Epoch != 0 {
			t.Fatalf("status %+v once one agent is through", st)
		}
		w.dp.mu.Lock()
		for _, p := range w.dp.program.Tenants["shop"].Pools {
			if p.Check.Port != 9090 {
				t.Errorf("shop is not served as its agent says: %+v", p)
			}
		}
		w.dp.mu.Unlock()
		// The other Tenant is missing still; nothing of it is lost.
		settle(time.Hour)
		w.serves(ours...)
		w.set(f.api)
		w.set(tenant("lab", 1, 1))
		settle(time.Second)
		w.isThawed(1)
		w.serves(ours...)
		// It follows the hub as ever.
		w.set(phased(f.webAt, v1alpha1.AddressReleasing))
		settle(time.Second)
		w.serves(ours[1:]...)
	})
}

// Not versions, nor the UID, but what it wrote itself tells this one.
func TestBumpedRevisionsDoNotHideARestoredHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.class_, f.shop)
		settle(time.Second)
		old := w.hub.copy()
		for _, o := range f.all() {
			w.set(o)
		}
		settle(time.Second)
		w.lost()
		old.version += 1_000_000
		w.hub.restore(old)
		w.version += 1_000_000
		// The watches resume, as if nothing had been, and tell of what never was.
		for r := range resources {
			w.proxy.inbox.Opened(r)
		}
		w.delete(f.web)
		w.delete(f.webAt)
		w.opened()
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.serves(ours...)
	})
}

// The hub's last word was the watch's, of what it took and didn't answer.
func TestAnAnswerThatWasLostDoesNotHideARestoredHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.class_, f.shop)
		settle(time.Second)
		old := w.hub.copy()
		w.hub.mu.Lock()
		w.hub.dying = true
		w.hub.mu.Unlock()
		for _, o := range f.all() {
			w.set(o)
		}
		settle(5 * time.Second)
		w.lost()
		old.version += 1_000_000
		w.hub.restore(old)
		w.hub.comeBack()
		w.version += 1_000_000
		w.opened()
		w.list(f.class_, f.shop)
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.serves(ours...)
	})
}

// Its status was not written since the copy was made: only the lists tell.
func TestAListOfOldTellsOfARestoredHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.lost()
		w.opened()
		w.version = 20
		w.list()
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.serves(ours...)
	})
}

func TestAReplacedHubFreezesWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		first := w.hub.copy()
		w.lost()
		w.hub.replace("another")
		w.opened()
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		if st := w.status(); st.HubUID != "another" {
			t.Errorf("hub %s", st.HubUID)
		}
		w.version = 10
		w.list()
		settle(time.Minute)
		w.serves(ours...)
		w.wantAgainst("shop", "192.0.2.1 web TCP/80")

		// It was pointed elsewhere by mistake.
		w.lost()
		w.hub.restore(first)
		w.hub.mu.Lock()
		w.hub.uid = "hub-uid"
		w.hub.mu.Unlock()
		w.opened()
		w.version = 1000
		settle(time.Second)
		w.list(f.all()...)
		settle(time.Second)
		if st := w.status(); st.Through == (v1alpha1.Through{}) || w.condition().Status == metav1.ConditionTrue {
			t.Errorf("status %+v before the first hub again", st)
		}
		w.serves(ours...)
		w.set(phased(f.webAt, v1alpha1.AddressReleasing))
		settle(time.Second)
		w.serves(ours[1:]...)
	})
}

func TestAnOwnProxyThatWasDeletedUnseenFreezes(t *testing.T) {
	for name, seen := range map[string]bool{"seen": true, "unseen": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				w := newWorld(t, "")
				defer w.stop()
				w.opened()
				w.list(f.all()...)
				settle(time.Second)
				if !seen {
					w.lost()
				}
				w.hub.mu.Lock()
				delete(w.hub.proxies, "edge-1")
				version := w.hub.next()
				w.hub.mu.Unlock()
				if seen {
					w.proxy.own.Deleted(version)
					settle(time.Second)
					w.lost()
				}
				w.opened()
				settle(time.Second)
				if !seen {
					w.isFrozen(v1alpha1.ReasonHubRestored)
				}
				w.list(f.all()...)
				settle(time.Second)
				w.serves(ours...)
				if seen {
					if c := w.condition(); c.Type != "" || w.status().Through == (v1alpha1.Through{}) {
						t.Errorf("condition %+v, through %+v", c, w.status().Through)
					}
				}
			})
		})
	}
}

// What can't be confirmed is not taken, and nothing is said meanwhile.
func TestAHubThatDoesNotSayWhoItIsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.hub.leave()
		w.lost()
		w.opened()
		for r := range resources {
			w.proxy.inbox.Opened(r)
		}
		w.delete(f.webAt)
		settle(time.Hour)
		w.serves(ours...)
		w.hub.comeBack()
		settle(5 * time.Second)
		w.serves(ours[1:]...)
		if c := w.condition(); c.Type != "" {
			t.Errorf("condition %+v", c)
		}
	})
}

func TestAFencedProxyThaws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, t.TempDir(), f)
		defer w.stop()
		w.list(f.class_, f.shop)
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
		settle(time.Second)
		w.serves()
		if c := w.condition(); c.Status != metav1.ConditionFalse {
			t.Errorf("condition %+v", c)
		}
		w.fence(nil)
		w.set(tenant("shop", 1, 1))
		settle(time.Second)
		w.serves()
		if st := w.status(); st.Epoch != 1 || st.ThawedEpoch != 0 {
			t.Errorf("epoch %d, and %d in which it thawed: it serves nothing of before", st.Epoch, st.ThawedEpoch)
		}
		w.set(f.web)
		w.set(f.webAt)
		settle(time.Second)
		w.serves(ours[0])
	})
}

// The next process knows no more of the hub than what the file says.
func TestAProcessThatStartsBeforeAChangedHubIsFrozen(t *testing.T) {
	for name, again := range map[string]bool{"changed while nobody ran": false, "frozen before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				dir := t.TempDir()
				w := newWorld(t, dir)
				w.opened()
				w.list(f.class_, f.shop)
				settle(time.Second)
				old := w.hub.copy()
				for _, o := range f.all() {
					w.set(o)
				}
				settle(5 * time.Second)
				if again {
					w.lost()
					w.hub.restore(old)
					w.opened()
					settle(time.Second)
					w.isFrozen(v1alpha1.ReasonHubRestored)
					w.stop()
				} else {
					w.stop()
					w.hub.restore(old)
				}
				w.restart(dir)
				defer func() { w.stop() }()
				w.version = 50
				w.opened()
				settle(time.Second)
				w.list(f.class_, f.shop)
				settle(time.Second)
				w.serves(ours...)
				w.isFrozen(v1alpha1.ReasonHubRestored)
				w.wantAgainst("shop", "192.0.2.1 web TCP/80")
				for _, o := range f.all() {
					w.set(o)
				}
				w.set(tenant("shop", 1, 1))
				w.set(tenant("lab", 1, 1))
				settle(time.Second)
				w.isThawed(1)
				w.serves(ours...)
				settle(time.Second)
				w.stop()

				// And the one after it knows the hub as it is now.
				w.restart(dir)
				w.opened()
				settle(time.Second)
				w.list(append(f.all()[:8:8], tenant("shop", 1, 1), tenant("lab", 1, 1))...)
				settle(time.Second)
				w.serves(ours...)
				if st := w.status(); st.Through == (v1alpha1.Through{}) || st.Epoch != 1 || st.ThawedEpoch != 1 || w.condition().Type != "" {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

func TestAHubThatChangesAgainBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		w.list(f.class_, f.shop)
		settle(time.Second)
		second := w.hub.copy()
		w.set(f.webAt)
		w.set(f.apiAt)
		settle(time.Second)
		w.wantAgainst("ops", "192.0.2.3 own TCP/80")
		w.wantAgainst("shop")
		w.lost()
		w.hub.restore(second)
		w.opened()
		settle(time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.list(f.class_, f.shop)
		settle(time.Second)
		w.wantAgainst("shop", "192.0.2.1 web TCP/80")
		w.serves(ours...)
	})
}

// What an agent wrote before a second change, in the epoch that the first one brought, may be lost by that. A process that
// starts while frozen does not know whether there was one.
func TestAnEpochThatWasHeardWhileFrozenIsNotTakenForTheNext(t *testing.T) {
	for name, again := range map[string]bool{"changed again": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				dir := t.TempDir()
				w := restored(t, dir, f)
				defer func() { w.stop() }()
				all := f.all()
				all[8], all[9] = tenant("shop", 1, 1), tenant("lab", 1, 0)
				w.list(all...)
				settle(time.Second)
				if st := w.status(); !slices.Equal(st.Held, []string{"lab"}) {
					t.Fatalf("status %+v once one agent is through", st)
				}
				second := w.hub.copy()
				moved := f.webNodes.DeepCopyObject().(*v1alpha1.TargetGroup)
				moved.Generation, moved.Spec.Targets[0].Addresses = 2, []string{"10.0.0.2"}
				w.set(moved)
				settle(5 * time.Second)
				w.members("10.0.0.2")
				if again {
					w.stop()
					w.hub.restore(second)
					w.restart(dir)
				} else {
					w.lost()
					w.hub.restore(second)
				}
				w.version = 90
				w.opened()
				settle(time.Second)
				w.list(all...)
				settle(time.Minute)
				w.members("10.0.0.2")
				if st := w.status(); !slices.Equal(st.Held, []string{"lab", "shop"}) || st.Epoch != 1 {
					t.Fatalf("status %+v before agents have written all again", st)
				}
				w.set(tenant("shop", 2, 2))
				w.set(tenant("lab", 2, 2))
				settle(time.Second)
				w.members("10.0.0.1")
				w.isThawed(2)
			})
		})
	}
}

// A proxy that was stopped, and whose Proxy was deleted, may come back after its addresses were given to others. One that ran
// all the time knows better.
func TestWhoComesBackWithoutItsProxyLeavesToOthersWhatIsTheirs(t *testing.T) {
	for name, ran := range map[string]bool{"stopped": false, "stopped twice": false, "ran": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				dir := t.TempDir()
				w := newWorld(t, dir)
				defer func() { w.stop() }()
				w.opened()
				w.list(f.all()...)
				settle(5 * time.Second)
				if ran {
					w.lost()
				} else {
					w.stop()
				}
				w.hub.mu.Lock()
				delete(w.hub.proxies, "edge-1")
				w.hub.mu.Unlock()
				if !ran {
					w.restart(dir)
					synctest.Wait()
				}
				w.opened()
				settle(time.Second)
				if name == "stopped twice" {
					w.stop()
					w.restart(dir)
					synctest.Wait()
					w.opened()
					settle(time.Second)
				}
				rival, rivalAt := loadBalancer("rival", "web", f.webAt.Name)
				w.list(rival, rivalAt, f.ownAt, f.class_, f.shop)
				settle(time.Second)
				w.isFrozen(v1alpha1.ReasonHubRestored)
				w.wantAgainst("lab", "192.0.2.2 api TCP/80")
				if ran {
					w.wantAgainst("shop", "192.0.2.1 web TCP/80")
					w.serves(ours...)
					return
				}
				w.wantAgainst("shop")
				w.serves(ours[1:]...)
				w.set(f.apiAt)
				settle(time.Second)
				w.serves(ours...)
				w.dp.mu.Lock()
				defer w.dp.mu.Unlock()
				if s := w.dp.program.Tenants["rival"]; s == nil || len(s.Frontends) != 1 {
					t.Errorf("rival is not served: %+v", w.dp.program.Tenants)
				}
			})
		})
	}
}

// The Lease says that a proxy is there: not before it has said that the hub has changed.
func TestHubChangedIsSaidBeforeTheLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.class_, f.shop)
		settle(time.Second)
		old := w.hub.copy()
		for _, o := range f.all() {
			w.set(o)
		}
		settle(15 * time.Second)
		w.hub.fail(0.3)
		w.lost()
		w.hub.restore(old)
		w.opened()
		renewed := func() bool {
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			k := Key{v1alpha1.SystemNamespace, "edge-1"}
			return w.hub.leases[k].ResourceVersion != old.leases[k].ResourceVersion
		}
		for range 30_000 {
			settle(time.Millisecond)
			if renewed() {
				break
			}
		}
		if !renewed() || w.condition().Status != metav1.ConditionTrue {
			t.Errorf("renewed: %v; condition %+v", renewed(), w.condition())
		}
	})
}

// The next process takes over what is frozen, and says so itself.
func TestANextProcessTakesOverWhatIsFrozen(t *testing.T) {
	s := newSite(t)
	first := s.start(nil)
	s.writes(first)
	s.hub.replace("another")
	for r := range resources + 1 {
		first.inbox.Lost(r)
	}
	s.frozen(first)
	next := s.startBlind(nil)
	s.frozen(next)
	for r := range resources {
		next.inbox.Replace(r, nil, "5")
	}
	s.until("the next process to say what it serves against the ledger", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		r := s.hub.reports[Key{"red", "edge-1"}]
		return r != nil && r.Boot == next.boot && len(r.Serves) == 1 && r.Serves[0].LoadBalancer == "web" && len(r.Serves[0].Ports) == 2
	})
	if err := s.answers(); err != nil {
		t.Error(err)
	}
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
	if err := s.answers(); err != nil {
		t.Error(err)
	}
}

func TestAHubInDoubtHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, t.TempDir())
		defer w.stop()
		w.opened()
		w.list(f.class_, f.shop)
		settle(time.Minute)
		w.hub.mu.Lock()
		w.hub.nameless = true
		before := w.hub.version
		w.hub.mu.Unlock()
		w.lost()
		w.opened()
		for _, o := range f.all() {
			w.set(o) // The watches that carry these are not in doubt.
		}
		settle(10 * time.Minute)
		w.serves(ours...)
		w.hub.mu.Lock()
		if n := w.hub.version - before; n > 0 {
			t.Errorf("%d writes", n)
		}
		w.hub.nameless = false
		w.hub.mu.Unlock()
		settle(5 * time.Second)
		if st := w.status(); st.Frontends != 3 || w.condition().Type != "" {
			t.Errorf("status %+v", st)
		}
	})
}

// A status write of before the change may be answered after it.
func TestALateAnswerDoesNotCountInAnotherHub(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	in.Wrote(0, "one", "px", 5)
	in.Lost(OwnProxy)
	q, _ := in.Question()
	in.Answer(q, Answer{HubUID: "two"})
	in.Wrote(0, "one", "px", 6)
	in.Lost(OwnProxy)
	q, _ = in.Question()
	in.Answer(q, Answer{HubUID: "two"})
	if era, _ := in.Era(); era != 1 || in.Frozen() == nil || in.Memory().Seq != 5 {
		t.Errorf("era %d, frozen %v, memory %+v", era, in.Frozen(), in.Memory())
	}
}

// While its watch stands, a read that misses the own Proxy is only earlier than the watch.
func TestAReadIsEarlierThanTheWatch(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	in.Wrote(0, "one", "px", 5)
	in.Opened(OwnProxy)
	q, _ := in.Question()
	in.Answer(q, Answer{"one", &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{UID: "px"}, Status: v1alpha1.ProxyStatus{Seq: 5}}})
	in.Doubt()
	q, _ = in.Question()
	in.Answer(q, Answer{HubUID: "one"})
	if in.Sure() || in.Frozen() != nil {
		t.Errorf("sure %v, frozen %v before the watch spoke", in.Sure(), in.Frozen())
	}
	in.OwnDeleted()
	q, _ = in.Question()
	in.Answer(q, Answer{HubUID: "one"})
	if !in.Sure() || in.Frozen() != nil {
		t.Errorf("sure %v, frozen %v after it", in.Sure(), in.Frozen())
	}
}
