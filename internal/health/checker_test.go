package health

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

var (
	a1    = netip.MustParseAddr("192.0.2.1")
	a2    = netip.MustParseAddr("192.0.2.2")
	check = lb.Check{Kind: lb.CheckTCP, Port: 80, Interval: 2 * time.Second, Timeout: time.Second, Rise: 2, Fall: 2}
	p1    = lb.Probe{Check: check, Address: a1}
	p2    = lb.Probe{Check: check, Address: a2}

	errDown = errors.New("down")
)

// world is a network in which addresses are down, or silent, or answer after a while.
type world struct {
	mu       sync.Mutex
	down     map[netip.Addr]bool
	silent   func(netip.Addr) bool
	takes    time.Duration
	asked    map[lb.Probe]int
	now, max int
}

func (w *world) ask(p lb.Probe) error {
	w.mu.Lock()
	w.asked[p]++
	w.now++
	w.max = max(w.max, w.now)
	takes := w.takes
	silent := w.silent != nil && w.silent(p.Address)
	if silent {
		takes = p.Check.Timeout
	}
	w.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	if silent || w.down[p.Address] {
		return errDown
	}
	return nil
}

// most is how many checks were in flight at once.
func (w *world) most() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.max
}

func (w *world) set(a netip.Addr, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[a] = down
}

func (w *world) count(p lb.Probe) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[p]
}

// story runs f with a Checker in a bubble in which time costs nothing.
func story(t *testing.T, o Options, f func(t *testing.T, c *Checker, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{down: map[netip.Addr]bool{}, asked: map[lb.Probe]int{}}
		c := newChecker(o, w.ask)
		defer pass(2 * time.Minute) // in which checks in flight end
		defer c.Close()
		f(t, c, w)
	})
}

func (w *world) hang(a netip.Addr, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = func(o netip.Addr) bool { return hangs && o == a }
}

// pass lets time go by, and what is due at its end happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// set is of these probes.
func set(probes ...lb.Probe) map[lb.Probe]struct{} {
	out := map[lb.Probe]struct{}{}
	for _, p := range probes {
		out[p] = struct{}{}
	}
	return out
}

// shop is a tenant that wants these probes.
func shop(probes ...lb.Probe) map[lb.TenantID]map[lb.Probe]struct{} {
	return map[lb.TenantID]map[lb.Probe]struct{}{"shop": set(probes...)}
}

func want(t *testing.T, c *Checker, p lb.Probe, v lb.Verdict) {
	t.Helper()
	if got := c.Verdicts().Of(p.Check, p.Address); got != v {
		t.Errorf("%s is %v, want %v", p.Address, got, v)
	}
}

func TestFirstCheckIsMadeAtOnce(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		w.set(a2, true)
		want(t, c, p1, lb.Unchecked)
		c.SetProbes(shop(p1, p2))
		synctest.Wait()
		want(t, c, p1, lb.Healthy)
		want(t, c, p2, lb.Unchecked)
		pass(quickGap)
		want(t, c, p2, lb.Unhealthy)
	})
}

func TestFallAndRiseTakeTheirIntervals(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		c.SetProbes(shop(p1))
		synctest.Wait()
		w.set(a1, true)
		pass(2200 * time.Millisecond) // one failure
		want(t, c, p1, lb.Healthy)
		pass(2200 * time.Millisecond)
		want(t, c, p1, lb.Unhealthy)
		d, _ := c.Detail(p1)
		if d.Err != errDown || d.Since.IsZero() || d.Checked.Before(d.Since) {
			t.Errorf("detail %+v", d)
		}
		w.set(a1, false)
		pass(2200 * time.Millisecond)
		want(t, c, p1, lb.Unhealthy)
		pass(2200 * time.Millisecond)
		want(t, c, p1, lb.Healthy)
		if d, _ := c.Detail(p1); d.Err != nil {
			t.Errorf("detail %+v", d)
		}
	})
}

func TestOneFailureAmongSuccessesIsNothing(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		c.SetProbes(shop(p1))
		synctest.Wait()
		for range 5 {
			n := w.count(p1)
			w.set(a1, true)
			for w.count(p1) == n {
				pass(10 * time.Millisecond)
			}
			w.set(a1, false)
			pass(2200 * time.Millisecond)
			want(t, c, p1, lb.Healthy)
		}
	})
}

// A member that hangs is asked again as soon after it as one that refuses at once: what its check waits for it isn't waited for twice.
func TestSilentAddressIsAskedAgainWithinTheInterval(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 3 * time.Second} {
		story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
			slow := p1
			slow.Check.Timeout = timeout
			c.SetProbes(shop(slow))
			for n := range 50 {
				pass(10*time.Second + time.Duration(n)*77*time.Millisecond)
				want(t, c, slow, lb.Healthy)
				w.hang(a1, true)
				pass(11*slow.Check.Interval/10 + max(11*slow.Check.Interval/10, timeout+quickGap) + timeout)
				want(t, c, slow, lb.Unhealthy)
				w.hang(a1, false)
			}
		})
	}
}

func TestSuspectedDeadAddressIsUnhealthyWhateverTheInterval(t *testing.T) {
	for _, fall := range []int{1, 2, 5, 10} {
		t.Run(fmt.Sprint(fall), func(t *testing.T) {
			story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
				slow := p1
				slow.Check.Interval, slow.Check.Fall = time.Hour, fall
				c.SetProbes(shop(slow))
				pass(time.Minute)
				w.set(a1, true)
				c.Suspect(a1)
				pass(300 * time.Millisecond)
				want(t, c, slow, lb.Unhealthy)
			})
		})
	}
}

func TestSuspicionReachesAllProbesOfTheAddress(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		other := p1
		other.Check.Port = 81
		c.SetProbes(shop(p1, other, p2))
		pass(time.Millisecond)
		w.set(a1, true)
		w.set(a2, true)
		c.Suspect(a1)
		pass(300 * time.Millisecond)
		want(t, c, p1, lb.Unhealthy)
		want(t, c, other, lb.Unhealthy)
		want(t, c, p2, lb.Healthy)
	})
}

func TestSuspicionDuringACheckAsksAgain(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		w.takes = 100 * time.Millisecond
		c.SetProbes(shop(p1))
		pass(50 * time.Millisecond)
		c.Suspect(a1) // The answer that is on its way may be older.
		pass(60 * time.Millisecond)
		want(t, c, p1, lb.Healthy)
		w.set(a1, true)
		pass(500 * time.Millisecond)
		want(t, c, p1, lb.Unhealthy)
	})
}

func TestFalseSuspicionsDontMakeAStorm(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		c.SetProbes(shop(p1))
		pass(time.Second)
		before := w.count(p1)
		for range 10_000 { // ten seconds, a thousand suspicions each
			c.Suspect(a1)
			pass(time.Millisecond)
		}
		if n := w.count(p1) - before; n > 12 {
			t.Errorf("%d checks in 10 s, at an interval of 2 s", n)
		}
		want(t, c, p1, lb.Healthy)
		pass(10 * time.Second)
		w.set(a1, true)
		c.Suspect(a1)
		pass(300 * time.Millisecond)
		want(t, c, p1, lb.Unhealthy)
	})
}

func TestProbesThatStayGoOnUndisturbed(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		c.SetProbes(shop(p1, p2, lb.Probe{Check: lb.Check{Kind: lb.CheckNone}, Address: a1}))
		synctest.Wait()
		for range 100 {
			c.SetProbes(shop(p1, p1))
			synctest.Wait()
		}
		if n := w.count(p1); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		want(t, c, p2, lb.Unchecked)
		if _, ok := c.Detail(p2); ok {
			t.Error("a forgotten probe has details")
		}
		pass(10 * time.Second)
		if n := w.count(p2); n != 1 {
			t.Errorf("a forgotten probe was asked %d times", n)
		}
		if n := w.count(p1); n < 5 || n > 7 {
			t.Errorf("asked %d times in 10 s", n)
		}
	})
}

func TestAResultThatComesAfterItsProbeWentIsDropped(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		w.takes = 100 * time.Millisecond
		c.SetProbes(shop(p1))
		pass(50 * time.Millisecond)
		c.SetProbes(nil)
		pass(time.Second)
		if h := c.Verdicts(); len(h) != 0 {
			t.Errorf("got %v", h)
		}
	})
}

func TestVerdictsAreSharedAndNeverChange(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		other := lb.Probe{Check: check, Address: a1}
		other.Check.Port = 81
		c.SetProbes(shop(p1, p2, other))
		synctest.Wait()
		<-c.Changed()
		before := c.Verdicts()
		if same := c.Verdicts(); fmt.Sprintf("%p", same) != fmt.Sprintf("%p", before) {
			t.Error("nothing changed, and yet it is another map")
		}
		c.SetProbes(shop(p1, p2))
		w.set(a1, true)
		c.Suspect(a1)
		pass(time.Second)
		<-c.Changed()
		after := c.Verdicts()
		if before[check][a1] != lb.Healthy || len(before) != 2 {
			t.Errorf("what was given out has changed: %v", before)
		}
		if after[check][a1] != lb.Unhealthy || after[check][a2] != lb.Healthy || len(after) != 1 {
			t.Errorf("got %v", after)
		}
	})
}

func TestCloseEndsChecking(t *testing.T) {
	story(t, Options{}, func(t *testing.T, c *Checker, w *world) {
		c.SetProbes(shop(p1))
		synctest.Wait()
		c.Close()
		c.Suspect(a1)
		c.SetProbes(shop(p2))
		pass(time.Hour)
		if w.count(p1) != 1 || w.count(p2) != 0 {
			t.Errorf("asked %v after Close", w.asked)
		}
	})
}
