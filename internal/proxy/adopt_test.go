package proxy

import (
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is written reaches another hub, while the watches of the first still stand.

// replaced points what is written to another hub, where a Proxy of this name was before; the watches stay where they are.
func (w *world) replaced() {
	w.hub.replace("another")
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.version = 5000
	w.hub.proxies["edge-1"] = &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Name: "edge-1", UID: "theirs", ResourceVersion: w.hub.next()},
		Spec:       v1alpha1.ProxySpec{Pool: "edge"},
		Status:     v1alpha1.ProxyStatus{Boot: "theirs", Seq: 1000},
	}
}

func TestAnotherHubIsNotAdoptedByAWriteThatConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.replaced()
		more, moreAt := loadBalancer("shop", "more", "192.0.2.4")
		w.set(more)
		w.set(moreAt)
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		w.lost()
		w.opened()
		w.version = 6000
		w.list()
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		w.serves(append(ours[:3:3], "192.0.2.4:80/TCP")...)
	})
}

// Its own Proxy was read before, so this is no first registration.
func TestARegistrationAnewLooksWhoseHubItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(2 * time.Second)
		w.hub.mu.Lock()
		px := w.hub.proxies["edge-1"].DeepCopy()
		w.hub.mu.Unlock()
		w.replaced()
		// The watch's last word of the first hub is that somebody has emptied it.
		px.Status, px.ResourceVersion = v1alpha1.ProxyStatus{}, "2000"
		w.proxy.own.Set(px, px.ResourceVersion)
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		w.serves(ours...)
	})
}

func TestAWriteDoesNotMakeAnotherHubKnown(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	in.Wrote(0, "one", "px", 5)
	in.Wrote(0, "two", "other", 1)
	if m := in.Memory(); m.HubUID != "one" || m.ProxyUID != "px" || m.Seq != 5 || in.Sure() {
		t.Errorf("memory %+v, sure %v", m, in.Sure())
	}
}
