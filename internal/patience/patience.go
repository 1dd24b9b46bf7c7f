package patience

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// first and most are the pauses between two tries.
	first = 50 * time.Millisecond
	most  = time.Second
	// waking is how long an API server that has just come back may refuse: its
	// authorizer reads the roles after it has begun to listen.
	waking = 5 * time.Second
)

// Config returns a copy of a configuration whose lists and watches of informers wait.
// Other requests fail as before.
func Config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &patient{rt} })
	return cfg
}

type patient struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport below.
func (p *patient) WrappedRoundTripper() http.RoundTripper { return p.next }

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !informers(r) {
		return p.next.RoundTrip(r)
	}
	back := time.Time{} // when the API server answered after it had been away
	away := false
	for wait := first; ; wait = min(2*wait, most) {
		res, err := p.next.RoundTrip(r)
		switch {
		case err != nil && unreachable(err):
			away, back = true, time.Time{}
		case err == nil && away && unready(res.StatusCode):
			if back.IsZero() {
				back, wait = time.Now(), first
			}
			if time.Since(back) > waking {
				return res, err
			}
		default:
			return res, err
		}
		if !pause(r.Context(), wait) {
			return res, err
		}
		if err == nil {
			_ = res.Body.Close() // of a refusal that nobody reads
		}
	}
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// informers tells lists and watches of informers from other reads.
func informers(r *http.Request) bool {
	q := r.URL.Query()
	return q.Has("watch") || q.Has("resourceVersion")
}

// unreachable tells that the request never came to a server, or that nobody stands behind what took the connection: a load
// balancer in front of an API server that is away accepts, and closes.
func unreachable(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		(utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || errors.Is(err, io.EOF))
}

// unready tells what a server answers that does not know its roles yet, or not all its kinds.
func unready(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}
