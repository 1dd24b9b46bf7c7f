package health

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

type wants = map[lb.TenantID]map[lb.Probe]struct{}

// flood is a tenant's many ports of many addresses, at which nobody answers.
func flood(tenant, addresses, ports int) (lb.TenantID, map[lb.Probe]struct{}) {
	out := map[lb.Probe]struct{}{}
	for i := range addresses {
		for port := range ports {
			p := lb.Probe{Check: check, Address: netip.AddrFrom4([4]byte{10, byte(tenant), byte(i / 256), byte(i)})}
			p.Check.Port = uint16(port + 1)
			out[p] = struct{}{}
		}
	}
	return lb.TenantID(fmt.Sprint("flood", tenant)), out
}

func inFlood(a netip.Addr) bool { return a.As4()[0] == 10 }

// noticed fails unless a target that is well and dies now is found Unhealthy as soon as if nothing else were checked.
func noticed(t *testing.T, c *Checker, w *world, p lb.Probe) {
	t.Helper()
	want(t, c, p, lb.Healthy)
	w.set(p.Address, true)
	pass(time.Duration(p.Check.Fall) * p.Check.Interval * 11 / 10)
	want(t, c, p, lb.Unhealthy)
	w.set(p.Address, false)
	pass(time.Duration(p.Check.Rise) * p.Check.Interval * 11 / 10)
	want(t, c, p, lb.Healthy)
}

// Few places, so that there are few goroutines: the floods' checks take longer than ten of their intervals for one round.
func TestSilentTargetsHoldUpNobodyElse(t *testing.T) {
	for _, c := range []struct{ floods, addresses, ports int }{
		{1, 40, 25},
		{1, 1, 1000}, // one address
		{1, 1000, 1},
		{6, 20, 25},
		{14, 20, 5},
	} {
		t.Run(fmt.Sprintf("%d tenants, %d addresses, %d ports", c.floods, c.addresses, c.ports), func(t *testing.T) {
			story(t, Options{Concurrency: 32}, func(t *testing.T, k *Checker, w *world) {
				w.silent = inFlood
				all := wants{}
				for i := range c.floods {
					id, probes := flood(i, c.addresses, c.ports)
					all[id] = probes
				}
				k.SetProbes(all)
				pass(10 * time.Second)
				next := shop(p1, p2)
				for id, probes := range all {
					next[id] = probes
				}
				k.SetProbes(next) // They come while all the others wait.
				synctest.Wait()
				noticed(t, k, w, p1)
				noticed(t, k, w, p2)
				if most := w.most(); most > 32 {
					t.Errorf("%d at once", most)
				}
				id := lb.TenantID("flood0")
				if n := testutil.ToFloat64(k.metrics.late.WithLabelValues(string(id))); n == 0 {
					t.Errorf("no check of %s is late: this flood is none", id)
				}
				if n := testutil.ToFloat64(k.metrics.waiting.WithLabelValues(string(id))); n == 0 {
					t.Errorf("no check of %s waits: this flood is none", id)
				}
				if n := testutil.ToFloat64(k.metrics.late.WithLabelValues("shop")); n != 0 {
					t.Errorf("%v checks of the others are late", n)
				}
			})
		})
	}
}

// A silent address, or some, leave places to the others of its tenant.
func TestSilentAddressesLeavePlacesToTheirTenant(t *testing.T) {
	for _, addresses := range []int{1, 5} {
		t.Run(fmt.Sprint(addresses), func(t *testing.T) {
			story(t, Options{Concurrency: 32}, func(t *testing.T, k *Checker, w *world) {
				w.silent = inFlood
				_, probes := flood(0, addresses, 500)
				probes[p1] = struct{}{}
				k.SetProbes(wants{"shop": probes})
				pass(10 * time.Second)
				noticed(t, k, w, p1)
			})
		})
	}
}

func TestPlacesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ tenants, addresses, ports, least, most int }{
		"one address":  {1, 1, 100, 4, 4}, // 3 in flight, thrice over, are fewer than 10
		"one tenant":   {1, 100, 1, 5, 5},
		"two tenants":  {2, 50, 1, 7, 8}, // by who comes first
		"many tenants": {100, 1, 1, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, Options{Concurrency: 10}, func(t *testing.T, k *Checker, w *world) {
				w.takes = 100 * time.Millisecond
				all := wants{}
				for i := range c.tenants {
					id, probes := flood(i, c.addresses, c.ports)
					all[id] = probes
				}
				k.SetProbes(all)
				pass(time.Second)
				if most := w.most(); most < c.least || most > c.most {
					t.Errorf("%d at once, want %d to %d", most, c.least, c.most)
				}
				pass(2 * time.Second)
				for _, probes := range all {
					for p := range probes {
						want(t, k, p, lb.Healthy)
					}
				}
			})
		})
	}
}

func TestAProbeOfTwoTenantsCountsForTheOneWithFewer(t *testing.T) {
	story(t, Options{Concurrency: 32}, func(t *testing.T, k *Checker, w *world) {
		w.silent = func(a netip.Addr) bool { return a == a1 || inFlood(a) }
		id, probes := flood(0, 40, 25)
		probes[p1] = struct{}{}
		for port := range 50 { // and at the same address
			p := p1
			p.Check.Port = uint16(port + 1000)
			probes[p] = struct{}{}
		}
		k.SetProbes(wants{id: probes})
		pass(10 * time.Second)
		w.mu.Lock()
		w.silent = inFlood
		w.mu.Unlock()
		k.SetProbes(wants{id: probes, "shop": set(p1)})
		pass(time.Duration(p1.Check.Rise)*p1.Check.Interval*11/10 + p1.Check.Timeout)
		noticed(t, k, w, p1)
		before := w.count(p1)
		k.SetProbes(wants{id: probes})
		pass(5 * time.Minute)
		if n := w.count(p1) - before; n == 0 {
			t.Error("a probe that one tenant still wants isn't checked any more")
		}
	})
}

// Who takes probes away and gives others has no more places for it.
func TestProbesThatComeAndGoHaveNoMorePlaces(t *testing.T) {
	story(t, Options{Concurrency: 32}, func(t *testing.T, k *Checker, w *world) {
		w.silent = inFlood
		for i := range 20 {
			probes := map[lb.Probe]struct{}{}
			for port := range 100 {
				p := lb.Probe{Check: check, Address: netip.MustParseAddr("10.0.0.1")}
				p.Check.Port, p.Check.Timeout = uint16(100*i+port+1), time.Minute
				probes[p] = struct{}{}
			}
			k.SetProbes(wants{"flood": probes})
			pass(100 * time.Millisecond)
			k.SetProbes(nil)
		}
		if most := w.most(); most != 11 {
			t.Errorf("%d at once, want 11: a third of the places", most)
		}
	})
}

func TestAtRestNothingIsAllocated(t *testing.T) {
	k := newChecker(Options{}, nil)
	defer k.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &state{Probe: p1, at: -1}
	k.places.join(s, k.places.of("shop", a1))
	heap.Push(&k.due, s)
	if n := testing.AllocsPerRun(1000, func() {
		heap.Pop(&k.due)
		k.places.begin(s, s.next)
		k.places.end(s)
		heap.Push(&k.due, s)
	}); n != 0 {
		t.Errorf("%v allocations a check", n)
	}
}

// Whatever comes and goes, what is counted adds up, and at the end nothing is left.
func TestPlacesAddUp(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			story(t, Options{Concurrency: 8}, func(t *testing.T, k *Checker, w *world) {
				r := rand.New(rand.NewPCG(seed, 1))
				w.silent = func(a netip.Addr) bool { return a.As4()[3]%2 == 0 }
				for range 100 {
					if r.IntN(3) == 0 {
						k.Suspect(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(6))}))
					} else {
						all := wants{}
						for i := range r.IntN(5) {
							probes := map[lb.Probe]struct{}{}
							for range r.IntN(40) {
								p := lb.Probe{Check: check, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(6))})}
								p.Check.Port = uint16(1 + r.IntN(5))
								probes[p] = struct{}{}
							}
							all[lb.TenantID(fmt.Sprint(i))] = probes
						}
						k.SetProbes(all)
					}
					addsUp(t, k)
					pass(time.Duration(r.IntN(3000)) * time.Millisecond)
					addsUp(t, k)
				}
				k.SetProbes(nil)
				pass(time.Minute)
				addsUp(t, k)
				if n := len(k.places.tenants) + len(k.byTarget) + len(k.due) + k.places.running; n != 0 {
					t.Errorf("%d things are left", n)
				}
				if n := testutil.CollectAndCount(k.metrics.waiting) + testutil.CollectAndCount(k.metrics.late); n != 0 {
					t.Errorf("%d tenants are still shown", n)
				}
			})
		})
	}
}

// addsUp fails where a Checker's counts aren't those of its probes, or where a check waits that may begin.
func addsUp(t *testing.T, k *Checker) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	probes, waiting := map[*address]int{}, map[*address]int{}
	for _, s := range k.probes {
		probes[s.of]++
		if s.waits {
			waiting[s.of]++
		}
		if s.running == (s.at >= 0) {
			t.Fatalf("running is %v, and its place is %d", s.running, s.at)
		}
	}
	running := 0
	for id, of := range k.places.tenants {
		all, waits := 0, 0
		for addr, a := range of.addresses {
			all += a.running
			if len(a.waiting) > 0 {
				waits++
				if k.places.may(a) {
					t.Errorf("%s of %s waits for nothing", addr, id)
				}
			}
			if a.probes != probes[a] || len(a.waiting) != waiting[a] || a.probes+a.running == 0 || (a.at >= 0) != (len(a.waiting) > 0) {
				t.Errorf("%s of %s: %+v, of %d probes %d wait", addr, id, a, probes[a], waiting[a])
			}
		}
		if of.running != all || len(of.waiting) != waits || len(of.addresses) == 0 || (of.at >= 0) != (waits > 0) {
			t.Errorf("%s: %+v, of which %d are in flight, and %d addresses wait", id, of, all, waits)
		}
		running += all
	}
	if running != k.places.running || running > k.places.limit {
		t.Errorf("%d are in flight, %d counted", running, k.places.running)
	}
}
