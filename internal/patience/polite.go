package patience

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// longest bounds how long an answer keeps us from asking again, whatever it says.
const longest = time.Minute

// Polite returns a copy of a configuration whose requests wait as long as the API server told the last one of their method
// and path to, with Retry-After of a 429 or 503, at most a minute. client-go does so within one request, but forgets it as
// soon as the request's context ends, and the next try of the caller would come too early. A request that waits ends with
// its context.
func Polite(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &polite{next: rt, until: map[string]time.Time{}} })
	return cfg
}

type polite struct {
	next http.RoundTripper

	mu    sync.Mutex
	until map[string]time.Time // by method and path; what is past goes when another comes
}

// WrappedRoundTripper lets client-go find the transport below.
func (p *polite) WrappedRoundTripper() http.RoundTripper { return p.next }

func (p *polite) RoundTrip(r *http.Request) (*http.Response, error) {
	what := r.Method + " " + r.URL.Path
	for wait := p.wait(what); wait > 0; wait = p.wait(what) {
		if !pause(r.Context(), wait) {
			if r.Body != nil {
				_ = r.Body.Close() // nobody reads it
			}
			return nil, r.Context().Err()
		}
	}
	res, err := p.next.RoundTrip(r)
	if err == nil && (res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable) {
		p.told(what, res.Header.Get("Retry-After"))
	}
	return res, err
}

func (p *polite) wait(what string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until[what])
}

func (p *polite) told(what, after string) {
	seconds, err := strconv.ParseUint(after, 10, 16)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return // API servers say seconds, or nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for k, until := range p.until {
		if !until.After(now) {
			delete(p.until, k)
		}
	}
	p.until[what] = now.Add(min(time.Duration(seconds)*time.Second, longest))
}
