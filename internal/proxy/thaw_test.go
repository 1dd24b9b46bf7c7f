package proxy

import (
	"fmt"
	"runtime"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
)

// What a frozen proxy makes of one Address costs as much as that one's namespace holds, and not as the whole ledger.
func TestADeliveryToAFrozenProxyDoesNotCostTheWholeLedger(t *testing.T) {
	cost := func(served int) uint64 {
		g := &LastGood{}
		for r := range g.Objects {
			g.Objects[r] = map[Key]Object{}
		}
		add := func(o Object) { g.Objects[resourceOf(o)][keyOf(o)] = o }
		one, oneAt := loadBalancer("small", "web", "192.0.2.1")
		add(one)
		add(oneAt)
		for i := range served {
			l, a := loadBalancer("big", fmt.Sprint("web", i), fmt.Sprintf("198.51.%d.%d", i/256, i%256))
			add(l)
			add(a)
		}
		p := newPicture("edge", g)
		frozen := &HubChange{Reason: v1alpha1.ReasonHubRestored}
		p.take(Delivery{Era: 1, Frozen: frozen, Complete: true})
		if n := len(p.state.Serves["big"]); n != served {
			t.Fatalf("it tells of %d addresses", n)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			p.take(Delivery{Era: 1, Frozen: frozen, Complete: true, Changes: []Change{{Addresses, keyOf(oneAt), oneAt}}})
			p.take(Delivery{Era: 1, Frozen: frozen, Complete: true, Changes: []Change{{Addresses, keyOf(oneAt), nil}}})
		}
		runtime.ReadMemStats(&after)
		if len(p.state.Serves["small"]) != 1 || p.ledger {
			t.Fatalf("it tells of %+v", p.state.Serves["small"])
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := cost(2), cost(4000); many > 2*few {
		t.Errorf("%d bytes are allocated where 4000 addresses are served against the ledger, %d where 2 are", many, few)
	}
}
