package lead

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is a Lease that tests change.
type lease struct {
	record *resourcelock.LeaderElectionRecord
	fails  error
	reads  int
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.reads++
	if l.fails != nil {
		return nil, nil, l.fails
	}
	if l.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "x")
	}
	raw, err := json.Marshal(l.record)
	copied := *l.record
	return &copied, raw, err
}

func (l *lease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.fails != nil {
		return l.fails
	}
	r.RenewTime = metav1.NewTime(r.RenewTime.Truncate(time.Microsecond))
	l.record = &r
	return nil
}

func (l *lease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}
func (*lease) RecordEvent(string) {}
func (*lease) Identity() string   { return "me" }
func (*lease) Describe() string   { return "lease" }

// scene is a guard, its Lease, its hub and its clock.
type scene struct {
	*Guard
	lease *lease
	now   time.Time
	hub   string
	asked int
	ended error
}

func newScene() *scene {
	s := &scene{lease: &lease{}, now: time.Unix(1000, 123456789), hub: "hub"}
	s.Guard = New(Options{
		Lock: s.lease, Read: s.lease, RenewDeadline: 10 * time.Second, Now: func() time.Time { return s.now },
		HubUID: func(context.Context) (string, error) { s.asked++; return s.hub, nil },
	})
	s.OnChange(func(err error) { s.ended = err })
	return s
}

func (s *scene) renew(holder string, term int) error {
	return s.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: term, RenewTime: metav1.NewTime(s.now)})
}

func TestOnlyWhoRenewedInTimeMayWrite(t *testing.T) {
	s, ctx := newScene(), t.Context()
	if err := s.Check(ctx); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before the first renewal: %v", err)
	}
	for _, c := range []struct {
		name  string
		do    func()
		after time.Duration
		want  error
	}{
		{"renewed", func() { _ = s.renew("me", 1) }, 9 * time.Second, nil},
		{"a while ago", func() {}, time.Second, ErrNotLeading},
		{"renewed again", func() { _ = s.renew("me", 1) }, 0, nil},
		{"a renewal fails", func() { s.lease.fails = errors.New("away"); _ = s.renew("me", 1); s.lease.fails = nil }, 10 * time.Second, ErrNotLeading},
		{"released", func() { _ = s.renew("me", 1); _ = s.renew("", 1) }, 0, ErrNotLeading},
	} {
		c.do()
		s.now = s.now.Add(c.after)
		if err := s.Check(ctx); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAnOlderHubEndsTheRun(t *testing.T) {
	older := func(s *scene) { s.lease.record.RenewTime = metav1.NewTime(s.now.Add(-time.Minute)) }
	for name, c := range map[string]struct {
		change  func(*scene)
		changed bool
	}{
		"nothing":          {func(*scene) {}, false},
		"an older renewal": {older, true},
		"an earlier term, however young": {func(s *scene) {
			s.lease.record.LeaderTransitions, s.lease.record.RenewTime = 2, metav1.NewTime(s.now.Add(time.Hour))
		}, true},
		"a later term, of a slow clock": {func(s *scene) { s.lease.record.LeaderTransitions++; older(s) }, false},
		"the Lease is gone":             {func(s *scene) { s.lease.record = nil }, true},
		"another hub":                   {func(s *scene) { s.hub = "other" }, true},
		"the hub is away":               {func(s *scene) { s.lease.fails = errors.New("away") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			if err := s.renew("me", 3); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.change(s)
			if err := s.Check(t.Context()); err != nil {
				t.Fatalf("nothing was opened since: %v", err)
			}
			s.Opened()
			if err := s.Check(t.Context()); errors.Is(err, ErrHubChanged) != c.changed || errors.Is(s.ended, ErrHubChanged) != c.changed {
				t.Errorf("%v; ended with %v", err, s.ended)
			}
			if c.changed {
				if err := s.Check(t.Context()); !errors.Is(err, ErrHubChanged) {
					t.Errorf("it may write again: %v", err)
				}
			}
		})
	}
}

func TestTheElectionSeesAnOlderHubToo(t *testing.T) {
	s := newScene()
	if err := s.renew("me", 3); err != nil {
		t.Fatal(err)
	}
	s.lease.record.RenewTime = metav1.NewTime(s.now.Add(-time.Minute))
	if _, _, err := s.Get(t.Context()); !errors.Is(err, ErrHubChanged) || s.ended == nil {
		t.Errorf("%v; ended with %v", err, s.ended)
	}
}

func TestTheHubIsAskedOnceForAllThatWasOpened(t *testing.T) {
	s := newScene()
	if err := s.renew("me", 1); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	get := func(path string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Transport(s.Guard, http.DefaultTransport).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	for _, step := range []struct {
		path  string
		asked int
	}{{"/first", 1}, {"/one", 1}, {"/all?watch=true", 2}, {"/all?resourceVersion=5", 3}, {"/one", 3}} {
		get(step.path)
		get(step.path)
		for range 3 {
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if s.asked != step.asked {
			t.Errorf("%s: asked %d times, want %d", step.path, s.asked, step.asked)
		}
	}
}

// A manager that doesn't lead yet has filled its caches when the hub is restored: it knows by what it read before them.
func TestAManagerThatNeverLedKnowsAHubThatWasRestoredSince(t *testing.T) {
	old := func() *scene {
		s := newScene()
		if err := s.renew("other", 7); err != nil {
			t.Fatal(err)
		}
		s.Guard = New(s.Options) // another manager wrote that
		return s
	}
	read := func(s *scene) error {
		s.lease.record.LeaderTransitions = 6
		_, _, err := s.Get(t.Context())
		return err
	}
	s := old()
	if err := s.Meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := read(s); !errors.Is(err, ErrHubChanged) {
		t.Errorf("the Lease went back: %v", err)
	}
	if err := read(old()); err != nil {
		t.Errorf("who looked at nothing before can't know: %v", err)
	}

	s = newScene()
	if err := s.Meet(t.Context()); err != nil {
		t.Errorf("a hub that no manager led yet: %v", err)
	}
	s.hub = "another"
	if err := s.renew("me", 1); err != nil {
		t.Fatal(err)
	}
	s.Opened()
	if err := s.Check(t.Context()); !errors.Is(err, ErrHubChanged) {
		t.Errorf("another hub answers: %v", err)
	}
	s = newScene()
	s.lease.fails = errors.New("away")
	if err := s.Meet(t.Context()); err == nil {
		t.Error("nothing was read, and it was content")
	}
}

// Of two copies, restored one after the other while nobody leads, the later one has the younger Lease. Versions go back all the same.
func TestAnObjectWhoseVersionGoesBackEndsTheRun(t *testing.T) {
	at := func(version string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "l", ResourceVersion: version}}
	}
	for _, c := range []struct {
		before, now string
		ends        bool
	}{{"7", "7", false}, {"7", "10", false}, {"100044", "59", true}, {"10", "9", true}, {"7", "", false}, {"x", "3", false}} {
		s := newScene()
		if err := s.renew("me", 3); err != nil {
			t.Fatal(err)
		}
		s.Follows(at(c.before), at(c.now))
		if got := errors.Is(s.ended, ErrHubChanged); got != c.ends {
			t.Errorf("from %q to %q: %v", c.before, c.now, s.ended)
		}
		if err := s.Check(t.Context()); errors.Is(err, ErrHubChanged) != c.ends {
			t.Errorf("from %q to %q it may write: %v", c.before, c.now, err)
		}
	}
}
