package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

var errAway = errors.New("name server is away")

// zone is a name server of one's own.
type zone struct {
	takes time.Duration
	// hangs: names that it doesn't know time out.
	hangs bool

	mu       sync.Mutex
	names    map[string][]netip.Addr
	away     bool
	asked    map[string]int
	now, max int
}

func (z *zone) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	z.mu.Lock()
	z.asked[name]++
	z.now++
	z.max = max(z.max, z.now)
	takes := z.takes
	if z.hangs && z.names[name] == nil {
		takes = time.Hour
	}
	z.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.now--
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if z.away || z.names[name] == nil {
		return nil, errAway
	}
	return z.names[name], nil
}

func (z *zone) set(name string, addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.names[name] = nil
	for _, a := range addresses {
		z.names[name] = append(z.names[name], netip.MustParseAddr(a))
	}
}

func (z *zone) goAway(away bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.away = away
}

func (z *zone) count(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked[name]
}

// shop is the tenant that wants these names.
func shop(names ...string) map[lb.TenantID][]string {
	return map[lb.TenantID][]string{"shop": names}
}

// story runs f with a Resolver in a bubble in which time costs nothing.
func story(t *testing.T, o Options, f func(t *testing.T, r *Resolver, z *zone)) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{names: map[string][]netip.Addr{}, asked: map[string]int{}}
		o.Lookup = z.lookup
		r := New(o)
		defer func() {
			r.Close()
			synctest.Wait()
		}()
		f(t, r, z)
	})
}

// pass lets time go by, and what is due at its end happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func want(t *testing.T, r *Resolver, name string, addresses ...string) {
	t.Helper()
	var got []string
	for _, a := range r.Addresses()[name] {
		got = append(got, a.String())
	}
	if !slices.Equal(got, addresses) {
		t.Errorf("%s stands for %v, want %v", name, got, addresses)
	}
}

func TestANameIsLookedUpAtOnceAndFollowed(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("elb.example", "10.0.0.2", "::ffff:10.0.0.1", "fd00::1", "10.0.0.2")
		r.SetNames(shop("elb.example"))
		synctest.Wait()
		<-r.Changed()
		want(t, r, "elb.example", "10.0.0.1", "10.0.0.2", "fd00::1")
		z.set("elb.example", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		pass(12 * time.Second)
		<-r.Changed()
		want(t, r, "elb.example", "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1")
		pass(45 * time.Second)
		<-r.Changed()
		want(t, r, "elb.example", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		before := r.Addresses()
		pass(time.Minute)
		if now := r.Addresses(); fmt.Sprintf("%p", now) != fmt.Sprintf("%p", before) {
			t.Error("nothing changed, and yet it is another map")
		}
		select {
		case <-r.Changed():
			t.Error("nothing changed, and yet it says so")
		default:
		}
	})
}

func TestAnswersThatTakeTurnsAreOneSet(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("elb.example", "10.0.0.1")
		r.SetNames(shop("elb.example"))
		pass(time.Second)
		z.set("elb.example", "10.0.0.2")
		pass(12 * time.Second)
		<-r.Changed()
		for i := range 20 {
			z.set("elb.example", fmt.Sprintf("10.0.0.%d", 1+i%2))
			pass(12 * time.Second)
			want(t, r, "elb.example", "10.0.0.1", "10.0.0.2")
		}
		if len(r.Changed()) > 0 {
			t.Error("it changed")
		}
	})
}

func TestAFailureTakesNothingAway(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("elb.example", "10.0.0.1")
		r.SetNames(shop("elb.example"))
		synctest.Wait()
		<-r.Changed()
		z.goAway(true)
		pass(time.Hour)
		want(t, r, "elb.example", "10.0.0.1")
		<-r.Changed() // Err has something to say.
		if err := r.Err("elb.example"); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
		z.set("elb.example", "10.0.0.9")
		z.goAway(false)
		pass(34 * time.Second)
		want(t, r, "elb.example", "10.0.0.9")
		if err := r.Err("elb.example"); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestANameThatNobodyKnowsYetIsTriedSooner(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		r.SetNames(shop("elb.example"))
		pass(20 * time.Second)
		if n := z.count("elb.example"); n < 4 || n > 6 {
			t.Errorf("asked %d times in 20 s", n)
		}
		pass(time.Hour)
		if n := z.count("elb.example"); n > 150 {
			t.Errorf("asked %d times in an hour", n)
		}
		z.set("elb.example", "10.0.0.1")
		pass(34 * time.Second)
		want(t, r, "elb.example", "10.0.0.1")
	})
}

func TestForgottenNamesAreNotFollowed(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("a.example", "10.0.0.1")
		z.set("b.example", "10.0.0.2")
		r.SetNames(shop("a.example", "b.example"))
		synctest.Wait()
		for range 100 {
			r.SetNames(shop("b.example"))
			synctest.Wait()
		}
		want(t, r, "a.example")
		want(t, r, "b.example", "10.0.0.2")
		pass(time.Minute)
		if n := z.count("a.example"); n != 1 {
			t.Errorf("asked %d times for a forgotten name", n)
		}
		if n := z.count("b.example"); n < 6 || n > 8 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

func TestLookupsAreBoundedInNumberAndTime(t *testing.T) {
	story(t, Options{Concurrency: 20, Timeout: time.Second}, func(t *testing.T, r *Resolver, z *zone) {
		z.takes = time.Minute
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("n%d.example", i))
		}
		r.SetNames(shop(names...))
		pass(11 * time.Second)
		if z.max != 5 {
			t.Errorf("%d at once, want 5", z.max)
		}
		for _, name := range names {
			if z.count(name) == 0 {
				t.Errorf("%s was not asked for", name)
			}
		}
	})
}

func TestWhatWasKnownIsRememberedOverARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "edge-1.names")
	story(t, Options{File: file}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("elb.example", "10.0.0.1", "fd00::1")
		z.set("nlb.example", "10.0.0.2")
		r.SetNames(shop("elb.example", "nlb.example"))
		pass(2 * time.Second)
		r.SetNames(shop("elb.example"))
	})
	story(t, Options{File: file}, func(t *testing.T, r *Resolver, z *zone) {
		z.goAway(true)
		want(t, r, "elb.example")
		r.SetNames(shop("elb.example", "nlb.example"))
		want(t, r, "elb.example", "10.0.0.1", "fd00::1")
		want(t, r, "nlb.example")
		pass(time.Hour)
		want(t, r, "elb.example", "10.0.0.1", "fd00::1")
		z.set("elb.example", "10.0.0.1")
		z.goAway(false)
		pass(time.Minute)
		want(t, r, "elb.example", "10.0.0.1")
	})
	if err := os.WriteFile(file, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	story(t, Options{File: file}, func(t *testing.T, r *Resolver, z *zone) {
		r.SetNames(shop("elb.example"))
		want(t, r, "elb.example")
	})
}

func TestTheHostsOwnResolver(t *testing.T) {
	r := New(Options{})
	defer r.Close()
	r.SetNames(shop("localhost"))
	<-r.Changed()
	if got := r.Addresses()["localhost"]; !slices.Contains(got, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("localhost stands for %v", got)
	}
}
