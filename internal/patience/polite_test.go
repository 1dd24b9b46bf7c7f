package patience

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// server answers with a status and a Retry-After, as a RoundTripper.
type server struct {
	status int
	after  string
	asked  int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	return &http.Response{StatusCode: s.status, Header: http.Header{"Retry-After": {s.after}}, Body: http.NoBody, Request: r}, nil
}

func TestNobodyIsAskedBeforeTheTimeItSaid(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		after  string
		method string
		path   string
		waits  time.Duration
	}{
		{"too many", http.StatusTooManyRequests, "7", http.MethodPost, "/a", 7 * time.Second},
		{"unavailable", http.StatusServiceUnavailable, "7", http.MethodPost, "/a", 7 * time.Second},
		{"unavailable, and says no time", http.StatusServiceUnavailable, "", http.MethodPost, "/a", 0},
		{"no number", http.StatusTooManyRequests, "soon", http.MethodPost, "/a", 0},
		{"no time", http.StatusTooManyRequests, "0", http.MethodPost, "/a", 0},
		{"a day", http.StatusTooManyRequests, "86400", http.MethodPost, "/a", longest},
		{"another status", http.StatusInternalServerError, "7", http.MethodPost, "/a", 0},
		{"another path", http.StatusTooManyRequests, "7", http.MethodPost, "/b", 0},
		{"another method", http.StatusTooManyRequests, "7", http.MethodPut, "/a", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{status: c.status, after: c.after}
				transport, err := rest.TransportFor(Polite(&rest.Config{Host: "http://hub", Transport: s}))
				if err != nil {
					t.Fatal(err)
				}
				ask := func(ctx context.Context, method, path string) error {
					r, err := http.NewRequestWithContext(ctx, method, "http://hub"+path, strings.NewReader("x"))
					if err != nil {
						t.Fatal(err)
					}
					res, err := transport.RoundTrip(r)
					if err != nil {
						return err
					}
					return res.Body.Close()
				}
				if err := ask(t.Context(), http.MethodPost, "/a"); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if c.waits > 0 { // the caller gives up before
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if err := ask(ctx, c.method, c.path); !errors.Is(err, context.DeadlineExceeded) || s.asked != 1 {
						t.Errorf("asked %d times, %v", s.asked, err)
					}
				}
				if err := ask(t.Context(), c.method, c.path); err != nil || s.asked != 2 {
					t.Errorf("asked %d times, %v", s.asked, err)
				}
				if waited := time.Since(began); waited != c.waits {
					t.Errorf("waited %s, want %s", waited, c.waits)
				}
			})
		})
	}
}
