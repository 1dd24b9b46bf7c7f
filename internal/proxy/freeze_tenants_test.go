package proxy

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

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
