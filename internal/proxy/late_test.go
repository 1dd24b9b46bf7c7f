package proxy

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a hub says after another one has taken its place.

func TestASlowAnswerOfTheFirstHubDoesNotHideWhatTheNextSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(time.Second)
		w.hub.mu.Lock()
		w.hub.onStatus = func() {
			w.lost()
			w.hub.replace("another")
			time.Sleep(3 * time.Second)
		}
		w.hub.mu.Unlock()
		more, moreAt := loadBalancer("shop", "more", "192.0.2.4")
		w.set(more)
		w.set(moreAt)
		settle(10 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		w.fence(&v1alpha1.Fence{By: "manager", Reason: "stale"})
		settle(time.Second)
		w.serves()
		before := w.statuses()
		settle(time.Minute)
		if n := w.statuses() - before; n > 1 {
			t.Errorf("%d writes in a minute of rest", n)
		}
	})
}

func TestWatchesOfTheFirstHubAreNotHeardInTheNextEra(t *testing.T) {
	in := newInbox(func(Resource, string) {})
	own := newOwn(in)
	in.eraBegins = own.reset
	in.Wrote(0, "one", "px", 5)
	in.Lost(OwnProxy)
	q, _ := in.Question()
	in.Answer(q, Answer{HubUID: "two"})

	_, at := loadBalancer("shop", "web", "192.0.2.1")
	at.ResourceVersion = "900"
	px := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge-1", ResourceVersion: "900"}}
	report := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "edge-1", ResourceVersion: "900"}}
	hear := func(era int) (n int) {
		of := store{in, Addresses, era}
		for what, err := range map[string]error{
			"list":        of.Replace([]any{at.DeepCopy()}, "900"),
			"set":         of.Update(at.DeepCopy()),
			"own list":    ownStore{own, era}.Replace([]any{px}, "900"),
			"own":         ownStore{own, era}.Update(px),
			"report":      reportStore{own, era}.Update(report),
			"report list": reportStore{own, era}.Replace([]any{report}, "900"),
			"bookmark":    of.Bookmark("900"),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		in.mu.Lock()
		if !in.unlisted[Addresses] {
			n++
		}
		in.mu.Unlock()
		if x, listed := own.latest(); x != nil || listed {
			n++
		}
		if h := own.takeReports(); h.listed != nil || h.news != nil {
			n++
		}
		return n
	}
	if n := hear(0); n > 0 {
		t.Errorf("%d of 3 that the hub before says are heard", n)
	}
	if n := hear(1); n != 3 {
		t.Errorf("%d of 3 that the hub says are heard", n)
	}
	if err := (ownStore{own, 0}).Delete(px); err != nil {
		t.Error(err)
	}
	if x, _ := own.latest(); x == nil {
		t.Error("a deletion in the hub before is heard")
	}
}

// The hub becomes another after the file was kept, and before that one is told anything.
func TestAHubThatChangesHearsNothingBeforeTheFileSaysSo(t *testing.T) {
	hub := newFakeHub(&journal{})
	in := newInbox(func(Resource, string) {})
	own := newOwn(in)
	in.eraBegins, hub.own = own.reset, own
	o := Options{Name: "edge-1", Pool: "edge", Hub: hub, Dataplane: &fakeDataplane{}, StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry())}
	r := newReporter(o, "boot", own, newMailbox())
	r.state = &served{FromHub: true, Program: &lb.Program{}}
	registered := func() bool { hub.mu.Lock(); defer hub.mu.Unlock(); return hub.proxies["edge-1"] != nil }

	in.Wrote(0, "one", "px", 5)
	r.removal = true
	if _, err := r.keepFile(time.Now()); err != nil {
		t.Fatal(err)
	}
	in.Lost(OwnProxy)
	q, _ := in.Question()
	in.Answer(q, Answer{HubUID: "hub-uid"})
	if _, err := r.say(context.Background(), time.Now(), 0); err != nil || registered() {
		t.Errorf("registered: %v, %v", registered(), err)
	}
	// A registration that was about to begin reads the other hub, and not the one that it was for.
	if err := r.register(context.Background()); err == nil || registered() {
		t.Errorf("registered: %v, %v", registered(), err)
	}
	if _, err := r.tell(context.Background(), time.Now()); err != nil || !registered() {
		t.Errorf("registered: %v, %v", registered(), err)
	}
	if g, err := ReadLastGood(o.StateDir, "edge-1"); err != nil || g.Memory.Frozen != v1alpha1.ReasonHubReplaced {
		t.Errorf("the file: %v, %+v", err, g)
	}
}
