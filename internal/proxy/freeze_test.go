package proxy

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A hub that is not the one that it was.

// tenant is one with a namespace of its name, in an epoch of the hub, and of its agent.
func tenant(name string, hub, agent int64) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "t", Generation: 1},
		Spec:       v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}},
		Status:     v1alpha1.TenantStatus{HubEpoch: hub, AgentEpoch: agent},
	}
}

// fleetOf are two tenants' objects, and a namespace of no Tenant.
type fleetOf struct {
	web, api, own          *clusterv1.LoadBalancer
	webAt, apiAt, ownAt    *v1alpha1.Address
	webNodes, class_, shop Object
}

func newFleet() fleetOf {
	f := fleetOf{webNodes: targetGroup("shop", v1alpha1.Target{Name: "n1", UID: "n1", Addresses: []string{"10.0.0.1"}}), class_: class(), shop: tenant("shop", 0, 0)}
	f.web, f.webAt = loadBalancer("shop", "web", "192.0.2.1")
	f.api, f.apiAt = loadBalancer("lab", "api", "192.0.2.2")
	f.own, f.ownAt = loadBalancer("ops", "own", "192.0.2.3")
	return f
}

func (f fleetOf) all() []Object {
	return []Object{f.web, f.webAt, f.webNodes, f.api, f.apiAt, f.own, f.ownAt, f.class_, f.shop, tenant("lab", 0, 0)}
}

// ours are the sockets of a fleet.
var ours = []string{"192.0.2.1:80/TCP", "192.0.2.2:80/TCP", "192.0.2.3:80/TCP"}

// lost has all watches break, as when an API server ends.
func (w *world) lost() {
	for r := range resources + 1 {
		w.proxy.inbox.Lost(r)
	}
}

// opened opens the own Proxy's watch; the others' lists open theirs.
func (w *world) opened() {
	w.proxy.inbox.Opened(OwnProxy)
	w.hub.mu.Lock()
	px := w.hub.proxies["edge-1"].DeepCopy()
	w.hub.mu.Unlock()
	if px == nil {
		w.proxy.own.Set(nil, "")
		return
	}
	w.proxy.own.Set(px, px.ResourceVersion)
}

// condition is the Proxy's HubChanged.
func (w *world) condition() metav1.Condition {
	st := w.status()
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionHubChanged); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// isFrozen fails the test unless the proxy says so, for a reason, and proves nothing.
func (w *world) isFrozen(reason string) {
	w.t.Helper()
	st, c := w.status(), w.condition()
	if c.Status != metav1.ConditionTrue || c.Reason != reason || st.Through != (v1alpha1.Through{}) || st.Boot != w.proxy.Boot() {
		w.t.Fatalf("wanted %s and nothing in through; status %+v", reason, st)
	}
}

func (w *world) isThawed(epoch int64) {
	w.t.Helper()
	st, c := w.status(), w.condition()
	if c.Status != metav1.ConditionFalse || st.Through == (v1alpha1.Through{}) || st.Epoch != epoch || st.ThawedEpoch != epoch || len(st.Held) > 0 {
		w.t.Fatalf("wanted HubChanged=False, through and epoch %d; status %+v", epoch, st)
	}
}

// against are the addresses that a namespace's report names as served against the ledger.
func (w *world) against(namespace string) (out []string) {
	r := w.report(namespace)
	if r == nil {
		return nil
	}
	for _, s := range r.Serves {
		out = append(out, s.Address+" "+s.LoadBalancer+" "+strings.Join(s.Ports, ","))
	}
	return out
}

func (w *world) wantAgainst(namespace string, want ...string) {
	w.t.Helper()
	if got := w.against(namespace); !slices.Equal(got, want) {
		w.t.Fatalf("%s serves %v against the ledger, wanted %v", namespace, got, want)
	}
}

// restored is a world whose hub has gone back to before the fleet was there, all of which its proxy served.
func restored(t *testing.T, dir string, f fleetOf) *world {
	w := newWorld(t, dir)
	w.opened()
	w.list(f.class_, tenant("shop", 0, 0))
	settle(time.Second)
	old := w.hub.copy()
	w.set(tenant("lab", 0, 0))
	for _, o := range f.all() {
		w.set(o)
	}
	settle(time.Second)
	w.serves(ours...)
	w.lost()
	w.hub.restore(old)
	w.version = 50
	w.opened()
	settle(time.Second)
	return w
}

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

func (w *world) fence(f *v1alpha1.Fence) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	px := w.hub.proxies["edge-1"].DeepCopy()
	px.Spec.Fenced = f
	w.hub.put(px)
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

// What is served against the ledger in a namespace that the hub has no more can't be reported there: the Proxy says so, and
// reports it elsewhere, so that it holds up nobody.
func TestNamespacesThatTheHubLacksAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		missing := func(yes bool) {
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			w.hub.ending = map[string]bool{"lab": yes}
		}
		missing(true)
		w.list(f.class_, f.shop)
		settle(time.Minute)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.wantAgainst("lab")
		w.wantAgainst("ops", "192.0.2.3 own TCP/80")
		says := w.condition().Message
		if st := w.status(); !slices.Equal(st.Held, []string{"lab"}) || !strings.Contains(says, "(lab, ops, shop)") || !strings.Contains(says, "hasn't, or deletes (lab)") {
			t.Errorf("held %v; says %q", st.Held, says)
		}
		elsewhere := func() []v1alpha1.MissingServedAddress {
			if r := w.report(v1alpha1.SystemNamespace); r != nil {
				return r.ServesMissing
			}
			return nil
		}
		if got := elsewhere(); len(got) != 1 || got[0].Namespace != "lab" || got[0].Address != "192.0.2.2" || got[0].LoadBalancer != "api" || !slices.Equal(got[0].Ports, []string{"TCP/80"}) {
			t.Errorf("elsewhere it reports %+v", got)
		}
		for _, o := range []Object{f.webAt, f.ownAt, f.apiAt} {
			w.set(o)
		}
		settle(time.Second)
		if st := w.status(); !slices.Equal(st.Held, []string{"lab", "shop"}) || st.Through == (v1alpha1.Through{}) || len(elsewhere()) > 0 {
			t.Errorf("the ledger is whole: status %+v; elsewhere it reports %+v", st, elsewhere())
		}
		w.serves(ours...)
		w.delete(f.apiAt) // A person does that, say.
		settle(time.Minute)
		w.serves(ours[0], ours[2])
	})
}

// A write that fails has all reports read anew. What was said of a namespace that takes none stays said meanwhile, and it is left alone.
func TestAFailedWriteTakesBackNothingOfANamespaceThatTheHubLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		w.foreign(func(h *fakeHub) { h.ending["lab"], h.trouble["ops"] = true, "unavailable" })
		w.list(f.class_, f.shop)
		settle(10 * time.Second) // Writes of ops fail meanwhile, as if the hub were away.
		w.foreign(func(h *fakeHub) {
			if h.troubled < 2 || h.ended != 1 {
				t.Errorf("%d writes in ops failed, and %d in lab, which is to be left alone", h.troubled, h.ended)
			}
		})
		done := w.hub.journal.take()
		if r := w.report(v1alpha1.SystemNamespace); r == nil || len(r.ServesMissing) != 1 || slices.Contains(done, "delete "+v1alpha1.SystemNamespace) {
			t.Errorf("in fairlead-system stands %+v, after %v", r, done)
		}
	})
}

func TestANamespaceThatComesBackIsToldThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		missing := func(yes bool) {
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			w.hub.ending = map[string]bool{"lab": yes}
		}
		missing(true)
		w.list(f.class_, f.shop)
		settle(time.Minute)
		missing(false)
		settle(time.Minute)
		w.wantAgainst("lab", "192.0.2.2 api TCP/80")
		if st, says := w.status(), w.condition().Message; len(st.Held) > 0 || strings.Contains(says, "hasn't") || w.report(v1alpha1.SystemNamespace) != nil && len(w.report(v1alpha1.SystemNamespace).ServesMissing) > 0 {
			t.Errorf("held %v; says %q", st.Held, says)
		}
	})
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

// frozen waits until a process says that the hub has changed.
func (s *site) frozen(p *process) {
	s.t.Helper()
	s.until("the process to say that the hub has changed", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		px := s.hub.proxies["edge-1"]
		return px != nil && px.Status.Boot == p.boot && meta.IsStatusConditionTrue(px.Status.Conditions, v1alpha1.ConditionHubChanged)
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

// A Tenant whose part is in the ledger follows its agent, though another's part can't be entered: no pool has its address, say.
func TestATenantThawsThoughAnotherCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := restored(t, "", f)
		defer w.stop()
		w.list(f.web, f.webNodes, f.class_, f.shop)
		w.set(tenant("lab", 1, 1))
		w.set(tenant("shop", 1, 1))
		moved := f.webNodes.DeepCopyObject().(*v1alpha1.TargetGroup)
		moved.Generation, moved.Spec.Targets[0].Addresses = 2, []string{"10.0.0.2"}
		w.set(moved)
		settle(time.Second)
		w.members("10.0.0.1")
		w.set(f.webAt)
		settle(time.Second)
		w.members("10.0.0.2")
		w.serves(ours...)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.wantAgainst("lab", "192.0.2.2 api TCP/80")
		w.wantAgainst("ops", "192.0.2.3 own TCP/80")
		moved = moved.DeepCopy()
		moved.Generation, moved.Spec.Targets[0].Addresses = 3, []string{"10.0.0.3"}
		w.set(moved)
		settle(time.Second)
		w.members("10.0.0.3")

		// What is entered may be taken out again by another's word. Then it is told again, and served on.
		w.set(phased(f.webAt, v1alpha1.AddressReleasing))
		w.delete(f.web)
		settle(time.Second)
		w.wantAgainst("shop", "192.0.2.1 web TCP/80")
		w.serves(ours...)
		w.set(f.webAt)
		w.set(f.web)
		// A namespace of which nothing is served waits for the ledger.
		fresh, freshAt := loadBalancer("fresh", "web", "192.0.2.4")
		w.set(fresh)
		w.set(freshAt)
		w.set(f.ownAt)
		w.set(f.own)
		settle(time.Second)
		w.wantAgainst("shop")
		w.wantAgainst("ops")
		w.serves(ours...)
		w.set(f.apiAt)
		w.set(f.api)
		settle(time.Second)
		w.isThawed(1)
		w.serves(append(ours[:3:3], "192.0.2.4:80/TCP")...)
	})
}

// One that is new adopts an epoch as others do, and has not seen the hub change.
func TestOneThatIsNewSaysThatItSawNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(class(), tenant("shop", 3, 3))
		settle(time.Second)
		w.set(tenant("shop", 4, 4))
		settle(time.Second)
		if st := w.status(); st.Epoch != 4 || st.ThawedEpoch != 0 {
			t.Errorf("epoch %d, and %d in which it thawed", st.Epoch, st.ThawedEpoch)
		}
	})
}
