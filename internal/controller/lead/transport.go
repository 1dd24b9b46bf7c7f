package lead

import "net/http"

// Transport tells a guard of each watch that is opened and each list that is answered, before anybody reads it.
func Transport(g *Guard, next http.RoundTripper) http.RoundTripper { return &telling{g, next} }

type telling struct {
	guard *Guard
	next  http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *telling) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip tells of what an informer asks for: a read with parameters.
func (t *telling) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && r.URL.RawQuery != "" {
		t.guard.Opened()
	}
	return res, err
}
