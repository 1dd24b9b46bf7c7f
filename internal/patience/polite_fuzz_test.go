package patience

import (
	"math/big"
	"strings"
	"testing"
	"time"
)

// Whatever an answer says of when to ask again: no wait is longer than the longest, and one that is asked for is kept, up to that.
func FuzzTold(f *testing.F) {
	for _, s := range []string{"", "1", "0", "-1", "60", "61", "65536", "9999999999", "18446744073709551616", "1e3", " 5", "+5", "Wed, 21 Oct 2015 07:28:00 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, after string) {
		p := &polite{until: map[string]time.Time{}}
		before := time.Now()
		p.told("GET /", after)
		got := p.until["GET /"]
		if got.After(time.Now().Add(longest)) {
			t.Fatalf("%q: it waits until %s", after, got)
		}
		want := time.Duration(0)
		if n, ok := new(big.Int).SetString(after, 10); ok && strings.Trim(after, "0123456789") == "" {
			want = longest
			if n.Cmp(big.NewInt(int64(longest/time.Second))) < 0 {
				want = time.Duration(n.Int64()) * time.Second
			}
		}
		if want > 0 && got.Before(before.Add(want)) {
			t.Errorf("%q: it waits until %s, want %s from %s", after, got, want, before)
		}
	})
}
