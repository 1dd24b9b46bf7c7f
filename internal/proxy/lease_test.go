package proxy

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// ask has a manager ask the proxy.
func (w *world) ask(question string) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	px := w.hub.proxies["edge-1"].DeepCopy()
	if px.Annotations == nil {
		px.Annotations = map[string]string{}
	}
	px.Annotations[v1alpha1.AnnotationAsked] = question
	w.hub.put(px)
}

// renewal is the version of the Lease.
func (w *world) renewal() string {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hub.leases[Key{v1alpha1.SystemNamespace, "edge-1"}].ResourceVersion
}

func TestAProxyThatIsAskedRenewsItsLeaseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(13 * time.Second) // It has renewed twice.
		before, statuses := w.renewal(), w.statuses()
		w.ask("one")
		settle(0)
		if w.renewal() == before {
			t.Fatal("the Lease was not renewed")
		}
		before = w.renewal()
		w.ask("one")
		settle(4 * time.Second)
		if w.renewal() != before {
			t.Error("one question was answered twice")
		}
		renewals := 0
		for i := range 100 {
			w.ask(fmt.Sprint(i))
			settle(100 * time.Millisecond)
			if w.renewal() != before {
				before, renewals = w.renewal(), renewals+1
			}
		}
		if renewals < 9 || renewals > 11 {
			t.Errorf("%d renewals in ten seconds of questions", renewals)
		}
		settle(askedEvery)
		before = w.renewal()
		settle(leaseEvery/2 - askedEvery - time.Millisecond)
		if w.renewal() != before {
			t.Error("it was renewed again too soon")
		}
		settle(leaseEvery)
		if w.renewal() == before {
			t.Error("after an answer it was never renewed")
		}
		if w.statuses() != statuses {
			t.Errorf("the questions cost %d writes of status", w.statuses()-statuses)
		}
	})
}

// A hub that comes back hears of the proxy as soon as that knows it again: nothing is added to what finding it takes.
func TestTheLeaseIsRenewedAsSoonAsTheHubIsKnownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(13 * time.Second)
		w.hub.leave()
		w.proxy.inbox.Doubt()
		settle(time.Minute)
		before := w.renewal()
		w.hub.comeBack()
		for !w.proxy.inbox.Sure() {
			if w.renewal() != before {
				t.Fatal("the Lease was renewed while the hub was in doubt")
			}
			settle(time.Millisecond)
		}
		settle(time.Millisecond)
		if w.renewal() == before {
			t.Error("the Lease was not renewed when the hub was known")
		}
	})
}
