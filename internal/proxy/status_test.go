package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThroughIsWrittenAtOnceThenLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(2 * time.Second)
		one := func(i int) {
			l, a := loadBalancer("shop", fmt.Sprint("web", i), fmt.Sprint("192.0.2.", i))
			w.set(l)
			w.set(a)
		}
		atOnce := func(i int) {
			before := w.statuses()
			one(i)
			settle(time.Millisecond)
			if w.statuses() != before+1 || w.status().Through.Addresses != fmt.Sprint(w.version) {
				t.Errorf("%d writes, through %+v at once", w.statuses()-before, w.status().Through)
			}
		}
		atOnce(1)
		before := w.statuses()
		for i := range 200 {
			one(2 + i)
			settle(10 * time.Millisecond)
		}
		// After 50, 100, 200, 400 and then every 500 ms.
		if n := w.statuses() - before; n < 5 || n > 7 {
			t.Errorf("%d writes of status in two seconds of changes", n)
		}
		settle(statusMost)
		if got := w.status().Through.Addresses; got != fmt.Sprint(w.version) {
			t.Errorf("through %s at last, wanted %d", got, w.version)
		}
		settle(2 * time.Second)
		atOnce(210)
		settle(200 * time.Millisecond)
		atOnce(211)
	})
}

func TestAtRestOnlyTheLeaseIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		defer w.stop()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(10 * time.Second)
		w.hub.mu.Lock()
		before := w.hub.version
		w.hub.mu.Unlock()
		settle(10 * time.Minute)
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		if n := w.hub.version - before; n != 60 {
			t.Errorf("%d writes in ten minutes of rest, wanted 60 renewals", n)
		}
	})
}

func TestTwoProcessesOfOneNameSayItAndDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(time.Second)
		// The other one writes each time that it sees our boot, as a sane process would not.
		writes := w.statuses()
		for range 60 {
			w.hub.mu.Lock()
			px := w.hub.proxies["edge-1"].DeepCopy()
			if px.Status.Boot == w.proxy.Boot() {
				px.Status.Boot = "other"
				w.hub.put(px)
			}
			w.hub.mu.Unlock()
			settle(time.Second)
		}
		if n := w.statuses() - writes; n > 4 {
			t.Errorf("%d writes against the other in a minute, wanted at most 4", n)
		}
		settle(time.Minute)
		st := w.status()
		if st.Boot != w.proxy.Boot() || st.Conditions[0].Reason != ReasonDuplicateName {
			t.Errorf("status %+v, wanted our boot and %s", st, ReasonDuplicateName)
		}
		settle(5 * time.Minute)
		if st := w.status(); st.Conditions[0].Reason != ReasonServing {
			t.Errorf("condition %+v long after the other was seen", st.Conditions[0])
		}
	})
}

func TestADeletedProxyRegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.opened()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class())
		settle(time.Second)
		w.hub.mu.Lock()
		delete(w.hub.proxies, "edge-1")
		w.hub.own.Deleted(w.hub.next())
		w.hub.mu.Unlock()
		settle(time.Second)
		if st := w.status(); st.Boot != w.proxy.Boot() || st.Phase != v1alpha1.ProxyServing || st.Frontends != 1 {
			t.Errorf("status %+v", st)
		}
		w.serves("192.0.2.1:80/TCP")
	})
}

func TestHubAwayAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		defer w.stop()
		w.list(class())
		settle(time.Second)
		w.hub.leave()
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.set(l)
		w.set(a)
		settle(time.Minute)
		w.serves("192.0.2.1:80/TCP")
		w.hub.comeBack()
		settle(2 * time.Second)
		if st := w.status(); st.Frontends != 1 || st.Through.Addresses != fmt.Sprint(w.version) {
			t.Errorf("two seconds after the hub came back: %+v", st)
		}
	})
}

// A file that can't be written is said with its cause, and nothing is proven meanwhile.
func TestAFileThatCannotBeWrittenIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inTheWay := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFleet()
		w := newWorld(t, filepath.Join(inTheWay, "state"))
		defer w.stop()
		w.opened()
		w.list(f.all()...)
		settle(5 * time.Second)
		w.serves(ours...)
		ready := func() metav1.Condition {
			return *meta.FindStatusCondition(w.status().Conditions, v1alpha1.ConditionReady)
		}
		if st, c := w.status(), ready(); c.Status != metav1.ConditionFalse || c.Reason != ReasonFileFailed || !strings.Contains(c.Message, "not a directory") || st.Through != (v1alpha1.Through{}) {
			t.Errorf("condition %+v, through %+v", c, st.Through)
		}
		before := w.statuses()
		settle(time.Minute)
		if n := w.statuses() - before; n > 0 {
			t.Errorf("it says so %d times more", n)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		settle(5 * time.Second)
		if st, c := w.status(), ready(); c.Reason != ReasonServing || st.Through == (v1alpha1.Through{}) {
			t.Errorf("condition %+v, through %+v once it can be written", c, st.Through)
		}
	})
}

// noRoom lets the last-good file of a world's proxy not be written anew, as on a full disk, until back is called.
func noRoom(t *testing.T, dir string) (back func()) {
	t.Helper()
	inTheWay := filepath.Join(dir, "edge-1.last-good.new")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
	}
}

// ready is the Proxy's condition Ready.
func (w *world) ready() metav1.Condition {
	st := w.status()
	if c := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// A process that starts from a file which can't be written now registers before it has applied anything: the hub is faster.
func TestAProcessThatStartsWithAFullDiskRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w := newWorld(t, dir)
		w.opened()
		w.list(f.all()...)
		settle(5 * time.Second)
		w.stop()
		back := noRoom(t, dir)
		w.restart(dir)
		defer func() { w.stop() }()
		w.opened()
		settle(patience / 2)
		if c := w.ready(); c.Reason != ReasonFileFailed || !strings.Contains(c.Message, "has applied nothing yet") {
			t.Errorf("condition %+v", c)
		}
		w.list(f.all()...)
		settle(5 * time.Second)
		w.serves(ours...)
		back()
		settle(5 * time.Second)
		if st, c := w.status(), w.ready(); c.Reason != ReasonServing || st.Through == (v1alpha1.Through{}) {
			t.Errorf("condition %+v, through %+v once it can be written", c, st.Through)
		}
	})
}
