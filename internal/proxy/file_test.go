package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
)

func TestServedFromTheFileWhileTheHubIsAway(t *testing.T) {
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	l2, a2 := loadBalancer("shop", "api", "192.0.2.2")
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		w.list(l, a, class())
		settle(100 * time.Millisecond)
		w.set(l2)
		w.set(a2)
		settle(100 * time.Millisecond)
		w.stop() // a plain addition is not lost by it
		if !w.dp.closed {
			t.Error("data plane was not closed")
		}
		w.hub.leave()
		w.restart(dir)
		defer func() { w.stop() }()
		settle(400 * time.Millisecond)
		w.serves()
		settle(200 * time.Millisecond)
		w.serves("192.0.2.1:80/TCP", "192.0.2.2:80/TCP")

		// The hub's view replaces it when it is complete, and is not mixed with it.
		w.hub.comeBack()
		w.proxy.inbox.Replace(LoadBalancers, []Object{l2.DeepCopy()}, w.next())
		settle(5 * time.Second)
		w.serves("192.0.2.1:80/TCP", "192.0.2.2:80/TCP")
		if st := w.status(); st.Through != (v1alpha1.Through{}) || st.Phase != v1alpha1.ProxyStarting {
			t.Errorf("said %+v of what the file holds", st)
		}
		w.list(l2.DeepCopy(), a2.DeepCopy(), class())
		settle(time.Second)
		w.serves("192.0.2.2:80/TCP")
		g, err := ReadLastGood(dir, "edge-1")
		if err != nil || len(g.Objects[LoadBalancers]) != 1 || g.HubUID != "hub-uid" || g.ProxyUID == "" || g.Boot != w.proxy.Boot() {
			t.Errorf("file %+v, %v", g, err)
		}
	})
}

func TestAFenceRemovesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(time.Second)
		w.hub.mu.Lock()
		px := w.hub.proxies["edge-1"].DeepCopy()
		px.Spec.Fenced = &v1alpha1.Fence{By: "me", Reason: "burnt"}
		w.hub.put(px)
		w.hub.mu.Unlock()
		settle(time.Second)
		if _, err := ReadLastGood(dir, "edge-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("file of a fenced proxy: %v", err)
		}
	})
}

func TestAnUnwritableFileHoldsUpWhatWouldBeReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the directory should be
			t.Fatal(err)
		}
		w := newWorld(t, dir)
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(10 * time.Second)
		w.serves("192.0.2.1:80/TCP")
		if st := w.status(); st.Through != (v1alpha1.Through{}) {
			t.Errorf("said %+v without a file", st.Through)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		settle(5 * time.Second)
		if st := w.status(); st.Frontends != 1 {
			t.Errorf("status %+v once the file could be written", st)
		}
	})
}

func TestFileSurvivesATornTailAndNotDamage(t *testing.T) {
	dir := t.TempDir()
	f := newFile(dir, FileHeader{Proxy: "p", Pool: "edge"})
	defer f.close()
	l, a := loadBalancer("shop", "web", "192.0.2.1")
	change := func(r Resource, o Object) Change { return Change{r, keyOf(o), o} }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.write([]Change{change(LoadBalancers, l), change(Addresses, a)}, Versions{"1", "1", "1", "1", "1"}, synced))
	must(f.write([]Change{{LoadBalancers, keyOf(l), nil}}, Versions{"2", "1", "1", "1", "1"}, synced))
	whole, err := os.ReadFile(f.path)
	must(err)
	g, err := parseLastGood(whole)
	must(err)
	if len(g.Objects[LoadBalancers]) != 0 || len(g.Objects[Addresses]) != 1 || g.Through[LoadBalancers] != "2" {
		t.Errorf("read %+v", g)
	}
	// Whatever the tear, what is read is one of the two batches.
	for n := len(whole) - 1; n > 0; n-- {
		g, err := parseLastGood(whole[:n])
		if err != nil {
			continue
		}
		if lbs := len(g.Objects[LoadBalancers]); (g.Through[LoadBalancers] == "1") != (lbs == 1) {
			t.Fatalf("torn at %d: through %s with %d LoadBalancers", n, g.Through[LoadBalancers], lbs)
		}
	}
	damaged := bytes.Replace(whole, []byte(`"gone"`), []byte(`"gone`), 1)
	if _, err := parseLastGood(damaged); err == nil {
		t.Error("a file that lost a removal was taken")
	}
}

func TestFileIsWrittenAnewWhenItGrows(t *testing.T) {
	dir := t.TempDir()
	f := newFile(dir, FileHeader{Proxy: "p", Pool: "edge"})
	defer f.close()
	l, _ := loadBalancer("shop", "web", "192.0.2.1")
	for i := range 5000 {
		l := l.DeepCopy()
		l.Labels = map[string]string{"i": fmt.Sprint(i)}
		if err := f.write([]Change{{LoadBalancers, keyOf(l), l}}, Versions{fmt.Sprint(i + 1), "1", "1", "1", "1"}, buffered); err != nil {
			t.Fatal(err)
		}
	}
	s, err := os.Stat(f.path)
	if err != nil {
		t.Fatal(err)
	}
	if s.Size() > compactAfter+4096 {
		t.Errorf("%d bytes for one object", s.Size())
	}
	g, err := ReadLastGood(dir, "p")
	if err != nil || g.Objects[LoadBalancers][keyOf(l)].GetLabels()["i"] != "4999" {
		t.Errorf("read %+v, %v", g, err)
	}
}

// A proxy that was down when somebody fenced it must not serve its file, however long its first view takes.
func TestAFenceIsHeededBeforeTheFirstView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(2 * time.Second)
		w.stop()

		w.hub.mu.Lock()
		px := w.hub.proxies["edge-1"].DeepCopy()
		px.Spec.Fenced = &v1alpha1.Fence{By: "me", Reason: "its address is another's by now"}
		w.hub.put(px)
		w.hub.mu.Unlock()
		w.dp.program = nil
		w.start(dir)
		defer w.stop()
		settle(5 * time.Second)
		w.serves()
		if _, err := ReadLastGood(dir, "edge-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("last-good file of a fenced proxy: %v", err)
		}
		w.list(l, a, class())
		settle(20 * time.Millisecond)
		if st := w.status(); len(st.Conditions) != 1 || st.Conditions[0].Reason != ReasonFenced {
			t.Errorf("status at the first view: %+v", st)
		}
	})
}

func TestWhatIsAppliedAtTheVeryEndIsFiled(t *testing.T) {
	dir := t.TempDir()
	box := newMailbox()
	r := newReporter(Options{
		Name: "edge-1", Pool: "edge", StateDir: dir,
		Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
	}, "boot", newOwn(newInbox(func(Resource, string) {})), box)
	l, _ := loadBalancer("shop", "web", "192.0.2.1")
	box.put(post{state: &served{FromHub: true}, changes: []Change{{LoadBalancers, keyOf(l), l}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.run(ctx)
	if g, err := ReadLastGood(dir, "edge-1"); err != nil || len(g.Objects[LoadBalancers]) != 1 {
		t.Errorf("file %+v, %v", g, err)
	}
}
