package proxy

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// A proxy that was fenced while it didn't run serves nothing from its file before a hub that answers, however slow that is.
func TestASlowHubsFenceIsReadBeforeTheFileIsServed(t *testing.T) {
	for name, frozen := range map[string]bool{"same hub": false, "frozen": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet()
				dir := t.TempDir()
				w := newWorld(t, dir)
				w.opened()
				w.list(f.all()...)
				settle(5 * time.Second)
				if frozen {
					w.lost()
					w.hub.replace("another")
					w.opened()
					settle(5 * time.Second)
					w.isFrozen(v1alpha1.ReasonHubReplaced)
				}
				w.stop()
				w.fence(&v1alpha1.Fence{By: "me", Reason: "its addresses are others' by now"})
				w.hub.mu.Lock()
				w.hub.slow = 3 * time.Second
				w.hub.mu.Unlock()
				w.restart(dir)
				defer w.stop()
				for range 1000 {
					settle(10 * time.Millisecond)
					w.serves()
				}
				if _, err := ReadLastGood(dir, "edge-1"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("last-good file of a fenced proxy: %v", err)
				}
			})
		})
	}
}

// A hub that takes connections and never answers is waited for, but not for ever.
func TestAHubThatHangsIsWaitedForWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w := newWorld(t, dir)
		w.opened()
		w.list(f.all()...)
		settle(5 * time.Second)
		w.stop()
		w.hub.mu.Lock()
		w.hub.slow = time.Hour
		w.hub.mu.Unlock()
		w.restart(dir)
		settle(fenceWithin - time.Second)
		w.serves()
		settle(2 * time.Second)
		w.serves(ours...)
		w.stop()
	})
}

// A hub that is back and takes no writes stops who serves its file, though it can't be registered there.
func TestAFenceIsHeededByWhoCannotRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		dir := t.TempDir()
		w := newWorld(t, dir)
		w.opened()
		w.list(f.all()...)
		settle(5 * time.Second)
		w.stop()
		w.fence(&v1alpha1.Fence{By: "me", Reason: "its addresses are others' by now"})
		w.hub.leave()
		w.restart(dir)
		defer w.stop()
		settle(5 * time.Second)
		w.serves(ours...)
		w.hub.mu.Lock()
		w.hub.readOnly = true
		w.hub.mu.Unlock()
		w.hub.comeBack()
		settle(5 * time.Second)
		w.serves()
	})
}

// What counts as a hub that is there is a connection.
func TestAConnectionIsAHubThatIsThere(t *testing.T) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	ask := func() (reached bool) {
		t.Helper()
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c, err := NewClient(&rest.Config{Host: at.Addr().String()}, scheme, "edge-1", func(string, error) {})
		if err != nil {
			t.Fatal(err)
		}
		in := newInbox(func(Resource, string) {})
		l := &loop{o: Options{Name: "edge-1", Hub: c}, inbox: in, own: newOwn(in), log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		var r atomic.Bool
		if l.readFence(ctx, &r) {
			t.Error("it has answered")
		}
		return r.Load()
	}
	if !ask() {
		t.Error("a hub that takes connections is away")
	}
	at.Close()
	if ask() {
		t.Error("a hub that takes no connections is there")
	}
}
