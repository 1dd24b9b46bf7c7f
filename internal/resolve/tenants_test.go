package resolve

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.dev/fairlead/internal/lb"
)

// silent are n names that nobody answers for.
func silent(tenant string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("n%03d.%s.example", i, tenant))
	}
	return out
}

// The zone answers for names of its own at once; every other lookup times out. Few names, so that there are few
// goroutines: the race detector's runtime ends at times, by a check of its own, where thousands begin and end at once.
func TestNamesThatTimeOutHoldUpNobodyElse(t *testing.T) {
	for _, floods := range []int{1, 6} {
		t.Run(fmt.Sprint(floods), func(t *testing.T) {
			story(t, Options{PerTenant: 40, Concurrency: 8}, func(t *testing.T, r *Resolver, z *zone) {
				z.hangs = true
				names := map[lb.TenantID][]string{}
				for i := range floods {
					tenant := fmt.Sprintf("flood%d", i)
					names[lb.TenantID(tenant)] = silent(tenant, 3000)
				}
				r.SetNames(names)
				pass(21 * time.Second)
				z.set("elb.example", "10.0.0.1")
				names = maps.Clone(names)
				names["shop"] = []string{"elb.example"}
				r.SetNames(names)
				pass(DefaultTimeout + time.Second)
				want(t, r, "elb.example", "10.0.0.1")
			})
		})
	}
}

func TestANameOfTwoTenantsCountsForTheOneWithFewer(t *testing.T) {
	story(t, Options{PerTenant: 3}, func(t *testing.T, r *Resolver, z *zone) {
		z.set("zzz.example", "10.0.0.1")
		r.SetNames(map[lb.TenantID][]string{"flood": append(silent("flood", 10), "zzz.example"), "shop": {"zzz.example"}})
		pass(time.Second)
		want(t, r, "zzz.example", "10.0.0.1")
	})
}

func TestATenantHasSoManyNamesAndNoMore(t *testing.T) {
	story(t, Options{PerTenant: 2}, func(t *testing.T, r *Resolver, z *zone) {
		for _, name := range []string{"a.example", "b.example", "c.example"} {
			z.set(name, "10.0.0.1")
		}
		r.SetNames(shop("b.example", "c.example"))
		pass(time.Second)
		r.SetNames(shop("a.example", "b.example", "c.example"))
		pass(time.Second)
		want(t, r, "a.example")
		want(t, r, "b.example", "10.0.0.1")
		want(t, r, "c.example", "10.0.0.1")
		if err := r.Err("a.example"); err == nil {
			t.Error("nobody says why")
		}
		r.SetNames(shop("a.example", "c.example"))
		pass(time.Second)
		want(t, r, "a.example", "10.0.0.1")
		if err := r.Err("a.example"); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestAddressesOfANameAreBounded(t *testing.T) {
	story(t, Options{}, func(t *testing.T, r *Resolver, z *zone) {
		answer := func(from, n int) {
			var all []string
			for i := range n {
				all = append(all, netip.AddrFrom4([4]byte{10, byte(from), byte(i / 256), byte(i)}).String())
			}
			z.set("elb.example", all...)
		}
		answer(2, 2000)
		r.SetNames(shop("elb.example"))
		synctest.Wait()
		first := r.Addresses()["elb.example"]
		pass(time.Minute)
		if now := r.Addresses()["elb.example"]; len(now) != maxAddresses || !slices.Equal(now, first) {
			t.Errorf("%d addresses, or others than before", len(now))
		}
		for i := range 20 {
			answer(3+i, 1000)
			pass(11 * time.Second)
			if n := len(r.Addresses()["elb.example"]); n > maxAddresses {
				t.Errorf("%d addresses", n)
			}
		}
	})
}
