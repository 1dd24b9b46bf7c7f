package proxy

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// answer is a transport that says always the same.
type answer struct {
	status     int
	retryAfter string
}

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	if a.status == 0 {
		return nil, errors.New("nobody there")
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Retry-After": {a.retryAfter}}}, nil
}

func TestAnAPIServerThatAsksForTimeGetsIt(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  answer
		within  time.Duration
		takes   time.Duration
		refused bool
	}{
		{"too many requests", answer{429, "2"}, time.Hour, 2 * time.Second, false},
		{"unavailable", answer{503, "1"}, time.Hour, time.Second, false},
		{"no longer than the request may take", answer{429, "9"}, 5 * time.Second, 5 * time.Second, false},
		{"no longer than is good", answer{429, "9999"}, time.Hour, longestWait, false},
		{"says nothing", answer{429, ""}, time.Hour, 0, false},
		{"a date", answer{503, "Fri, 31 Dec 1999 23:59:59 GMT"}, time.Hour, 0, false},
		{"nonsense", answer{429, "-5"}, time.Hour, 0, false},
		{"done", answer{201, "5"}, time.Hour, 0, false},
		{"no answer", answer{}, time.Hour, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://hub/", nil)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			res, err := (&manners{c.answer}).RoundTrip(r)
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: it took %s, want %s", c.name, took, c.takes)
			}
			if (err != nil) != c.refused || err == nil && res.StatusCode != c.answer.status {
				t.Errorf("%s: %v, %v", c.name, res, err)
			}
		})
	}
}
