package proxy

import (
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whatever an answer says of when to ask again: no wait is longer than the longest, and one that is asked for is kept, up to that.
func FuzzWaitFor(f *testing.F) {
	for _, s := range []string{"", "1", "0", "-1", "30", "31", "65536", "9999999999", "18446744073709551616", "1e3", " 5", "+5", "Wed, 21 Oct 2015 07:28:00 GMT"} {
		f.Add(429, s)
		f.Add(200, s)
	}
	f.Fuzz(func(t *testing.T, status int, after string) {
		got := waitFor(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}})
		asks := status == 429 || status >= 500
		if got < 0 || got > longestWait || got > 0 && !asks {
			t.Errorf("%d %q: %s", status, after, got)
		}
		n, ok := new(big.Int).SetString(after, 10)
		if !ok || !asks || strings.Trim(after, "0123456789") != "" {
			return
		}
		want := longestWait
		if n.Cmp(big.NewInt(int64(longestWait/time.Second))) < 0 {
			want = time.Duration(n.Int64()) * time.Second
		}
		if got != want {
			t.Errorf("%d %q: %s, want %s", status, after, got, want)
		}
	})
}
