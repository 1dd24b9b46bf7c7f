package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	patienceFirst = 50 * time.Millisecond
	patienceMost  = time.Second
)

// patient makes lists and watches wait for an API server that can't be reached, instead of
// failing: client-go's reflectors back off for up to 30 s, and would sleep on when it is back.
type patient struct{ next http.RoundTripper }

func withPatience(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &patient{rt} })
	return cfg
}

// WrappedRoundTripper lets client-go find the transport below.
func (p *patient) WrappedRoundTripper() http.RoundTripper { return p.next }

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || !informers(r) {
		return p.next.RoundTrip(r)
	}
	for wait := patienceFirst; ; wait = min(2*wait, patienceMost) {
		res, err := p.next.RoundTrip(r)
		if err == nil || !unreachable(err) {
			return res, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-r.Context().Done():
			t.Stop()
			return res, err
		}
	}
}

// informers tells lists and watches of informers from other reads.
func informers(r *http.Request) bool {
	q := r.URL.Query()
	return q.Has("watch") || q.Has("resourceVersion")
}

// unreachable tells that the request never came to a server.
func unreachable(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) &&
		(utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err))
}
