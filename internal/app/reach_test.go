package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func TestAHubThatIsAwayIsWaitedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := newReach(&rest.Config{Host: "http://" + address}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	made, done := 0, make(chan error, 1)
	go func() {
		_, err := r.until(t.Context(), func() (*life, error) {
			made++
			return &life{}, nil
		})
		done <- err
	}()
	for r.Why() == "" {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	if made != 0 || !strings.Contains(r.Why(), address) {
		t.Errorf("made %d times while nobody answered; it says %q", made, r.Why())
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
	s.Start()
	defer s.Close()
	if err := <-done; err != nil || made != 1 || r.Why() != "" {
		t.Errorf("made %d times, error %v, says %q", made, err, r.Why())
	}
}

// What fails while the hub is there is an error; what fails because it went is tried again.
func TestWhatFailsForLackOfAHubIsTriedAgain(t *testing.T) {
	broken, there, made := errors.New("broken"), true, 0
	r := &reach{log: slog.New(slog.DiscardHandler), ask: func(context.Context) error {
		if !there {
			there = true
			return errors.New("away")
		}
		return nil
	}}
	_, err := r.until(t.Context(), func() (*life, error) {
		made++
		there = made > 1
		return nil, broken
	})
	if !errors.Is(err, broken) || made != 2 {
		t.Errorf("made %d times: %v", made, err)
	}
}

// An API server that has just started forbids everything, until it has read its roles, and then serves no kinds of CRDs for a moment; one
// that goes on so means it.
func TestAHubMayRefuseWhileItStarts(t *testing.T) {
	ours := v1alpha1.GroupVersion
	for _, refusal := range []error{
		apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no roles yet")),
		&apiutil.ErrResourceDiscoveryFailed{ours: apierrors.NewNotFound(schema.GroupResource{Group: ours.Group}, "")},
	} {
		refusal = fmt.Errorf("making it: %w", refusal)
		for settles, want := range map[time.Duration]error{settlesWithin / 2: nil, 2 * settlesWithin: refusal} {
			synctest.Test(t, func(t *testing.T) {
				r := &reach{log: slog.New(slog.DiscardHandler), ask: func(context.Context) error { return nil }}
				began := time.Now()
				_, err := r.until(t.Context(), func() (*life, error) {
					if time.Since(began) < settles {
						return nil, refusal
					}
					return &life{}, nil
				})
				if !errors.Is(err, want) || time.Since(began) > settlesWithin+reachEvery {
					t.Errorf("%v settled after %s: %v after %s", refusal, settles, err, time.Since(began))
				}
			})
		}
	}
}

func TestAHubThatAnswersWithAnErrorIsThere(t *testing.T) {
	for code, wait := range map[int]bool{http.StatusUnauthorized: false, http.StatusForbidden: false, http.StatusNotFound: false, http.StatusServiceUnavailable: true} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		r, err := newReach(&rest.Config{Host: s.URL}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.ask(t.Context()); (err != nil) != wait {
			t.Errorf("%d: %v", code, err)
		}
		s.Close()
	}
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	r, err := newReach(&rest.Config{Host: s.URL}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ask(t.Context()); err != nil {
		t.Errorf("one with a certificate that nobody signed is waited for: %v", err)
	}
}

// answering answers each request, as a RoundTripper.
type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func TestAHubThatSaysWhenToComeAgainIsNotAskedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Time
		r, err := newReach(&rest.Config{Host: "http://hub", Transport: answering(func(q *http.Request) *http.Response {
			asked = append(asked, time.Now())
			res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: q}
			if len(asked) == 1 {
				res.StatusCode = http.StatusTooManyRequests
				res.Header.Set("Retry-After", "8") // longer than one look may take
			}
			return res
		})}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if waited, err := r.await(t.Context()); !waited || err != nil {
			t.Errorf("waited %v, %v", waited, err)
		}
		if len(asked) != 2 || asked[1].Sub(asked[0]) < 8*time.Second {
			t.Errorf("asked at %v", asked)
		}
	})
}

// Where packets vanish a look takes long to fail, and the next one need not wait on top of that.
func TestALookThatTookLongIsFollowedByTheNextAtOnce(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: reachEvery, reachEvery / 2: reachEvery, reachWithin: reachWithin} {
		synctest.Test(t, func(t *testing.T) {
			var began []time.Time
			r := &reach{log: slog.New(slog.DiscardHandler), ask: func(context.Context) error {
				if began = append(began, time.Now()); len(began) == 3 {
					return nil
				}
				time.Sleep(took) // the bubble's clock
				return errors.New("away")
			}}
			if waited, err := r.await(t.Context()); !waited || err != nil {
				t.Errorf("waited %v, %v", waited, err)
			}
			if first, second := began[1].Sub(began[0]), began[2].Sub(began[1]); first != want || second != want {
				t.Errorf("looks that took %s came %s and %s apart, want %s", took, first, second, want)
			}
		})
	}
}
