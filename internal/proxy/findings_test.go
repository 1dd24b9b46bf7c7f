package proxy

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

func node1() v1alpha1.Target {
	return v1alpha1.Target{Name: "node-1", UID: "u-1", Addresses: []string{"10.0.0.1"}}
}

// anew starts the next process, which knows of no check's result by itself.
func (w *world) anew(dir string) {
	w.checker = &fakeChecker{changed: make(chan struct{}, 1)}
	w.restart(dir)
}

// found is what the Program that runs has of a member's health.
func (w *world) found(address string, want lb.Verdict) {
	w.t.Helper()
	w.dp.mu.Lock()
	defer w.dp.mu.Unlock()
	for _, of := range w.dp.program.Health {
		if got, ok := of[netip.MustParseAddr(address)]; ok {
			if got != want {
				w.t.Errorf("%s is %v, want %v", address, got, want)
			}
			return
		}
	}
	if want != 0 {
		w.t.Errorf("nothing is known of %s, want %v", address, want)
	}
}

func TestANodeThatIsDownStaysSoOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		tg := targetGroup("shop", node1())
		w.list(l, a, class(), tg)
		settle(time.Second)
		w.checker.find(lb.Unhealthy)
		settle(time.Second)
		w.found("10.0.0.1", lb.Unhealthy)
		w.stop()

		w.hub.leave()
		w.anew(dir)
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP")
		w.found("10.0.0.1", lb.Unhealthy)
		w.checker.find(lb.Healthy)
		settle(time.Second)
		w.found("10.0.0.1", lb.Healthy)
		w.stop()

		w.anew(dir)
		defer func() { w.stop() }()
		settle(time.Second)
		w.found("10.0.0.1", 0) // What was found well says nothing of today.
	})
}

func TestWhatWasFoundLongAgoIsBelievedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", node1()))
		settle(time.Second)
		w.checker.find(lb.Unhealthy)
		settle(time.Second)
		w.stop()
		w.hub.leave()
		w.anew(dir)
		defer func() { w.stop() }()
		settle(beliefFor + time.Second)
		w.checker.changed <- struct{}{} // Something was found of others.
		settle(time.Second)
		w.found("10.0.0.1", 0)
	})
}

func TestFindingsGoWithTheFileAndAreNoCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := newWorld(t, dir)
		l, a := loadBalancer("shop", "web", "192.0.2.1")
		w.list(l, a, class(), targetGroup("shop", node1()))
		settle(time.Second)
		w.checker.find(lb.Unhealthy)
		settle(time.Second)
		w.stop()
		if err := os.WriteFile(findingsPath(dir, "edge-1"), []byte("[{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.hub.leave()
		w.anew(dir)
		defer func() { w.stop() }()
		settle(time.Second)
		w.serves("192.0.2.1:80/TCP")
		w.found("10.0.0.1", 0)

		w.hub.comeBack()
		w.list(l, a, class(), targetGroup("shop", node1()))
		w.hub.mu.Lock()
		px := w.hub.proxies["edge-1"].DeepCopy()
		px.Spec.Fenced = &v1alpha1.Fence{By: "me", Reason: "burnt"}
		w.hub.put(px)
		w.hub.mu.Unlock()
		settle(5 * time.Second)
		if _, err := readFindings(dir, "edge-1"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("findings of a fenced proxy: %v", err)
		}
	})
}

// What was found is written once a change, whatever order it comes in, and anew after it was taken away.
func TestWhatWasFoundIsWrittenOnceAChange(t *testing.T) {
	dir := t.TempDir()
	var down []lb.Probe
	for i := range 20 {
		down = append(down, lb.Probe{Check: lb.Check{Port: 80}, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
	}
	f := newFile(dir, FileHeader{Proxy: "p"})
	keep := func(want bool, when string) {
		t.Helper()
		if err := f.keepFindings(findings(down)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(findingsPath(dir, "p")); (err == nil) != want {
			t.Errorf("%s: written is %v", when, err == nil)
		}
	}
	keep(true, "at first")
	if err := os.Remove(findingsPath(dir, "p")); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		keep(false, "without a change")
	}
	if err := f.forgetFindings(); err != nil {
		t.Fatal(err)
	}
	keep(true, "after it was taken away")
	nowhere := newFile(filepath.Join(dir, "nowhere"), FileHeader{Proxy: "p"})
	if err := nowhere.keepFindings(nil); err != nil {
		t.Errorf("nothing was found, and no directory is there yet: %v", err)
	}
	if err := nowhere.keepFindings(findings(down)); err == nil {
		t.Error("it is written nowhere")
	}
}
