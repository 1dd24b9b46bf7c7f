package yield_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/yield"
)

// world is a Way and whom it woke, and when after the start.
type world struct {
	*yield.Way[string]
	began time.Time
	mu    sync.Mutex
	woken map[string]time.Duration
}

func newWorld() *world {
	w := &world{began: time.Now(), woken: map[string]time.Duration{}}
	w.Way = yield.New(func(k string) string {
		lane, _, _ := strings.Cut(k, "/")
		return lane
	}, func(k string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, twice := w.woken[k]; twice {
			panic(k + " is woken twice")
		}
		w.woken[k] = time.Since(w.began)
	})
	return w
}

// urgent makes urgent writes at a rate, for a while.
func (w *world) urgent(perSecond int, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Second / time.Duration(perSecond)) {
		w.Urgent("shop/urgent")
	}
}

func (w *world) wokenAt(k string) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d, ok := w.woken[k]
	return d, ok
}

func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.woken)
}

func TestNothingYieldsToAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if w.Yields("shop/idle") {
			t.Error("yields at rest")
		}
		for range 7 {
			w.Urgent("shop/urgent")
		}
		if w.Yields("shop/few") {
			t.Error("yields to seven")
		}
		w.urgent(10, 3*time.Second)
		if w.Yields("shop/slow") {
			t.Error("yields to ten a second")
		}
	})
}

func TestAShortBurstIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.urgent(100, 500*time.Millisecond)
		for _, k := range []string{"shop/a", "shop/b", "shop/a", "shop/b"} { // asked again, it still does
			if !w.Yields(k) {
				t.Errorf("%s does not yield", k)
			}
		}
		w.urgent(100, 500*time.Millisecond)
		time.Sleep(time.Second)
		for _, k := range []string{"shop/a", "shop/b"} {
			if at, ok := w.wokenAt(k); !ok || at < 1400*time.Millisecond || at > 1600*time.Millisecond {
				t.Errorf("%s woken: %v, after %s", k, ok, at)
			}
			if w.Yields(k) {
				t.Errorf("%s yields when all is over", k)
			}
		}
	})
}

func TestALongBurstIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.urgent(100, 500*time.Millisecond)
		if !w.Yields("shop/a") {
			t.Error("does not yield")
		}
		w.urgent(100, 5*time.Second)
		if at, ok := w.wokenAt("shop/a"); !ok || at < 3500*time.Millisecond || at > 3700*time.Millisecond {
			t.Errorf("woken: %v, after %s", ok, at)
		}
		// What it writes next in the same burst does not yield once more.
		if w.Yields("shop/a") {
			t.Error("yields again")
		}
		if !w.Yields("shop/b") {
			t.Error("another does not yield")
		}
		time.Sleep(2 * time.Second)
		w.forget()
		w.urgent(100, 500*time.Millisecond)
		if got := []bool{w.Yields("shop/a"), w.Yields("shop/b")}; !slices.Equal(got, []bool{true, true}) {
			t.Errorf("yield in the next burst: %v", got)
		}
		time.Sleep(5 * time.Second)
	})
}

func TestNobodyYieldsToAnothersBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Urgent("bank/urgent")
		w.urgent(100, 5*time.Second)
		if w.Yields("bank/a") {
			t.Error("bank yields to shop")
		}
		if !w.Yields("shop/a") {
			t.Error("shop does not yield to itself")
		}
		time.Sleep(5 * time.Second)
	})
}
