package health

import (
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// Checks that are due within a moment begin together, none of them late, and by goroutines that are there already.
func TestChecksBeginTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, minutes = 150, 1
		var mu sync.Mutex
		begins, before := map[time.Time]int{}, map[netip.Addr]time.Time{}
		var longest time.Duration
		c := newChecker(Options{}, func(p lb.Probe) error {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			begins[now]++
			if last, ok := before[p.Address]; ok {
				longest = max(longest, now.Sub(last))
			}
			before[p.Address] = now
			return nil
		})
		defer c.Close()
		var probes []lb.Probe
		for i := range many {
			probes = append(probes, lb.Probe{Check: check, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
		}
		c.SetProbes(shop(probes...))
		time.Sleep(minutes * time.Minute)
		goroutines := runtime.NumGoroutine()
		mu.Lock()
		defer mu.Unlock()
		checks := 0
		for _, n := range begins {
			checks += n
		}
		if least := many * int(minutes*time.Minute/check.Interval) * 9 / 10; checks < least {
			t.Errorf("%d checks, want %d", checks, least)
		}
		if most := int(minutes * time.Minute / together); len(begins) > most {
			t.Errorf("%d checks began at %d times, want %d at most", checks, len(begins), most)
		}
		if most := check.Interval * 11 / 10; longest > most {
			t.Errorf("%s went by between two checks, want %s at most", longest, most)
		}
		if goroutines > many+20 {
			t.Errorf("%d goroutines for %d probes", goroutines, many)
		}
	})
}
