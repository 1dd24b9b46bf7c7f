package proxy

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// fullDisk is a world whose proxy has started from a file that can't be written now, and serves a fleet. The hub's copy is of before the
// fleet was there.
func fullDisk(t *testing.T, dir string, f fleetOf) (w *world, old fakeCopy, back func()) {
	t.Helper()
	w = newWorld(t, dir)
	w.opened()
	w.list(f.class_, f.shop)
	settle(time.Second)
	old = w.hub.copy()
	for _, o := range f.all() {
		w.set(o)
	}
	settle(5 * time.Second)
	w.stop()
	back = noRoom(t, dir)
	w.restart(dir)
	w.opened()
	w.list(f.all()...)
	settle(5 * time.Second)
	w.serves(ours...)
	return w, old, back
}

// renewed says that the hub has a Lease of this process.
func (w *world) renewed() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	l := w.hub.leases[Key{v1alpha1.SystemNamespace, "edge-1"}]
	return l != nil && l.Annotations[v1alpha1.AnnotationBoot] == w.proxy.Boot()
}

// A proxy whose disk is full tells the hub that took the first one's place what it serves, and its next process knows of that.
func TestAProxyWithAFullDiskSaysThatItsHubHasChanged(t *testing.T) {
	for reason, change := range map[string]func(h *fakeHub, old fakeCopy){
		v1alpha1.ReasonHubRestored: (*fakeHub).restore,
		v1alpha1.ReasonHubReplaced: func(h *fakeHub, _ fakeCopy) { h.replace("another") },
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				dir := t.TempDir()
				w, old, back := fullDisk(t, dir, f)
				defer func() { w.stop() }()
				w.lost()
				change(w.hub, old)
				frozen := func() {
					t.Helper()
					w.version = 50
					w.opened()
					settle(time.Second)
					w.list(f.class_, f.shop)
					settle(15 * time.Second)
					w.serves(ours...)
					w.isFrozen(reason)
					w.wantAgainst("shop", "192.0.2.1 web TCP/80")
					w.wantAgainst("lab", "192.0.2.2 api TCP/80")
					if c := w.ready(); c.Reason != ReasonFileFailed || !strings.Contains(c.Message, "it serves what it had") {
						t.Errorf("condition %+v", c)
					}
					if !w.renewed() {
						t.Error("the Lease is not renewed")
					}
					before := w.statuses()
					settle(time.Minute)
					if n := w.statuses() - before; n > 0 {
						t.Errorf("%d writes of status in a minute of rest", n)
					}
				}
				frozen()
				w.stop()
				w.restart(dir)
				frozen()

				back()
				for _, o := range f.all() {
					w.set(o)
				}
				w.set(tenant("shop", 1, 1))
				w.set(tenant("lab", 1, 1))
				settle(5 * time.Second)
				w.isThawed(1)
				w.serves(ours...)
				if g, err := ReadLastGood(dir, "edge-1"); err != nil || g.Memory.Frozen != "" || g.Memory.HubUID != w.hub.uid {
					t.Errorf("the file: %v, %+v", err, g.Memory)
				}
			})
		})
	}
}

// What a full disk's file has may be somebody else's by now, if the proxy has let go of it since: the next process doesn't insist on it.
func TestANextProcessLeavesToOthersWhatItsFileLacksTheEndOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w, old, _ := fullDisk(t, dir, f)
		defer func() { w.stop() }()
		w.delete(f.web)
		w.delete(f.webAt)
		settle(time.Second)
		w.serves(ours[1:]...)
		w.lost()
		w.hub.restore(old)
		w.version = 50
		w.opened()
		settle(time.Second)
		w.stop()
		w.restart(dir)
		w.opened()
		rival, rivalAt := loadBalancer("rival", "web", f.webAt.Name)
		w.list(rival, rivalAt, f.class_, f.shop)
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubRestored)
		w.wantAgainst("shop")
		w.serves(ours[1:]...)
	})
}

// Once the ledger has thawed, something would be proven: a file that can't be written holds that up, and the mark goes on to count.
func TestAFullDiskHoldsUpWhatWouldBeProvenOfAChangedHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w, _, back := fullDisk(t, dir, f)
		defer func() { w.stop() }()
		w.lost()
		w.hub.replace("another")
		w.version = 50
		w.opened()
		settle(time.Second)
		w.list(f.all()...)
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		w.set(tenant("shop", 1, 1))
		w.set(tenant("lab", 1, 1))
		settle(5 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		if g, err := ReadLastGood(dir, "edge-1"); err != nil || g.Memory.Frozen != v1alpha1.ReasonHubReplaced {
			t.Errorf("the file: %v, %+v", err, g.Memory)
		}
		back()
		settle(5 * time.Second)
		w.isThawed(1)
	})
}

// Where the mark can't be written either, the hub that changed hears nothing: the next process would know it again.
func TestAHubThatChangesHearsNothingBeforeTheMarkSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w, _, back := fullDisk(t, dir, f)
		defer func() { w.stop() }()
		if err := os.Remove(markPath(dir, "edge-1")); err != nil {
			t.Fatal(err)
		}
		w.lost()
		w.hub.replace("another")
		w.opened()
		settle(15 * time.Second)
		w.serves(ours...)
		if st := w.status(); st.Boot != "" || w.renewed() {
			t.Errorf("status %+v, lease renewed: %v", st, w.renewed())
		}
		back()
		settle(15 * time.Second)
		w.isFrozen(v1alpha1.ReasonHubReplaced)
		if !w.renewed() {
			t.Error("the Lease is not renewed")
		}
	})
}

// The first hub again is told that this process is there, and nothing else.
func TestAProxyWithAFullDiskComesBackToItsFirstHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		w, _, back := fullDisk(t, t.TempDir(), f)
		defer func() { w.stop() }()
		first := w.hub.copy()
		w.lost()
		w.hub.replace("another")
		w.opened()
		settle(5 * time.Second)
		w.lost()
		w.hub.restore(first)
		w.hub.mu.Lock()
		w.hub.uid = "hub-uid"
		w.hub.mu.Unlock()
		seq := w.status().Seq
		w.opened()
		settle(time.Second)
		w.list(f.all()...)
		settle(15 * time.Second)
		if st, c := w.status(), w.ready(); st.Seq <= seq || st.Through != (v1alpha1.Through{}) || c.Reason != ReasonFileFailed || w.condition().Status == "True" || !w.renewed() {
			t.Errorf("status %+v, lease renewed: %v", st, w.renewed())
		}
		back()
		settle(5 * time.Second)
		if st, c := w.status(), w.ready(); c.Reason != ReasonServing || st.Through == (v1alpha1.Through{}) {
			t.Errorf("condition %+v, through %+v once it can be written", c, st.Through)
		}
	})
}

// A mark is written in place, counts while it isn't blank, and goes with the file.
func TestAMark(t *testing.T) {
	dir := t.TempDir()
	f := newFile(dir, FileHeader{Proxy: "edge-1"})
	f.identify(Memory{HubUID: "hub", Seq: 5})
	changed := Memory{HubUID: "hub", Seq: 5, Frozen: v1alpha1.ReasonHubRestored, Lost: true}
	holds := func(want Memory) {
		t.Helper()
		if g, err := ReadLastGood(dir, "edge-1"); err != nil || g.Memory != want {
			t.Errorf("it holds %+v, %v; want %+v", g.Memory, err, want)
		}
		if s, err := os.Stat(markPath(dir, "edge-1")); err != nil || s.Size() != markSize {
			t.Errorf("the mark: %v, %v", s, err)
		}
	}
	write := func() {
		t.Helper()
		if err := f.write(nil, Versions{}, buffered); err != nil {
			t.Fatal(err)
		}
	}
	mark := func() {
		t.Helper()
		if err := f.mark(); err != nil {
			t.Fatal(err)
		}
	}
	write()
	holds(f.memory)
	same := f.memory
	f.identify(changed)
	mark()
	holds(changed)
	f.identify(same)
	write()
	holds(same)
	// The next process's first write lets the file count, too.
	f.identify(changed)
	mark()
	f = newFile(dir, FileHeader{Proxy: "edge-1"})
	f.identify(same)
	write()
	holds(same)
	if err := os.WriteFile(markPath(dir, "edge-1"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := ReadLastGood(dir, "edge-1"); err == nil {
		t.Errorf("a damaged mark is passed over: %+v", g.Memory)
	}
	if err := f.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(markPath(dir, "edge-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mark of a file that is gone: %v", err)
	}
	// Without a file there is nothing that it could be instead of.
	f.identify(changed)
	mark()
	if _, err := readMark(dir, "edge-1"); err != nil {
		t.Error(err)
	}
}
