package proxy

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

// longestWait bounds what an API server may ask for.
const longestWait = 30 * time.Second

// mannered returns a copy of a configuration under which an answer that says when to ask again (Retry-After) is
// passed on only then, or when the request's context ends. Callers try again in their own time, which may be sooner.
func mannered(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &manners{next} })
	return cfg
}

type manners struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport below.
func (m *manners) WrappedRoundTripper() http.RoundTripper { return m.next }

// RoundTrip implements http.RoundTripper.
func (m *manners) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := m.next.RoundTrip(r)
	if err != nil {
		return res, err
	}
	wait := waitFor(res)
	if wait <= 0 {
		return res, nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
	return res, nil
}

// waitFor is how long an answer asks for; 0: it doesn't.
func waitFor(res *http.Response) time.Duration {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode < http.StatusInternalServerError {
		return 0
	}
	seconds, err := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16) // API servers name no dates
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestWait)
}
