package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// electable is a manager, as far as its life asks it: what is added is started by the test.
type electable struct {
	manager.Manager
	cache.Cache
	elected chan struct{}
	added   []manager.Runnable
}

func (m *electable) GetCache() cache.Cache                 { return m }
func (m *electable) WaitForCacheSync(context.Context) bool { return true }
func (m *electable) Elected() <-chan struct{}              { return m.elected }
func (m *electable) Add(r manager.Runnable) error          { m.added = append(m.added, r); return nil }
func (m *electable) Start(context.Context) error           { return errors.New("the test starts its parts") }
func (m *electable) start(ctx context.Context, leads bool) error {
	for _, r := range m.added {
		needs, ok := r.(manager.LeaderElectionRunnable)
		if standby := ok && !needs.NeedLeaderElection(); standby == leads {
			continue
		}
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Who stands by is ready to take over; who leads is ready when it has read all that it needs.
func TestALeaderIsReadyWhenItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mgr, read := &electable{elected: make(chan struct{})}, make(chan struct{})
		l, err := newLife(mgr, prometheus.NewRegistry(), func(ctx context.Context) error {
			select {
			case <-read:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		all := &lives{}
		all.now.Store(l)
		says := func(when string, want int) {
			t.Helper()
			answer := httptest.NewRecorder()
			all.health().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if answer.Code != want {
				t.Errorf("%s: %d %s, want %d", when, answer.Code, answer.Body, want)
			}
		}
		says("before it started", http.StatusServiceUnavailable)
		if err := mgr.start(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		says("standing by", http.StatusOK)
		close(mgr.elected)
		done := make(chan error)
		go func() { done <- mgr.start(t.Context(), true) }()
		synctest.Wait()
		says("leading, and not complete", http.StatusServiceUnavailable)
		close(read)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		says("leading", http.StatusOK)
	})
}

// Who is told to end before it is complete fails at nothing; what can't be read ends a life.
func TestALifeThatIsNeverComplete(t *testing.T) {
	never := errors.New("no such kind")
	mgr := &electable{elected: make(chan struct{})}
	if _, err := newLife(mgr, prometheus.NewRegistry(), func(context.Context) error { return never }); err != nil {
		t.Fatal(err)
	}
	if err := mgr.start(t.Context(), true); !errors.Is(err, never) {
		t.Errorf("it goes on: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := mgr.start(ended, true); err != nil {
		t.Errorf("told to end, it fails: %v", err)
	}
}
