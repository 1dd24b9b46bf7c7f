package proxy

import (
	"fmt"
	"runtime"
	"testing"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a frozen proxy makes of one Address costs as much as that one's namespace holds, and not as the whole ledger.
func TestADeliveryToAFrozenProxyDoesNotCostTheWholeLedger(t *testing.T) {
	cost := func(served int) uint64 {
		one, oneAt := loadBalancer("small", "web", "192.0.2.1")
		all := []Object{one, oneAt}
		for i := range served {
			l, a := loadBalancer("big", fmt.Sprint("web", i), fmt.Sprintf("198.51.%d.%d", i/256, i%256))
			all = append(all, l, a)
		}
		p := pictureOf(all...)
		p.take(changedTo())
		if n := len(p.state.Serves["big"]); n != served {
			t.Fatalf("it tells of %d addresses", n)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			p.take(changedTo(oneAt))
			p.take(changedTo(Change{Addresses, keyOf(oneAt), nil}))
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

// pictureOf shows what a file holds.
func pictureOf(objects ...Object) *picture {
	g := &LastGood{}
	for r := range g.Objects {
		g.Objects[r] = map[Key]Object{}
	}
	for _, o := range objects {
		g.Objects[resourceOf(o)][keyOf(o)] = o
	}
	return newPicture("edge", g)
}

// changedTo is a delivery of a hub that changed: of Objects that are there, and Changes.
func changedTo(news ...any) Delivery {
	d := Delivery{Era: 1, Frozen: &HubChange{Reason: v1alpha1.ReasonHubRestored}, Complete: true}
	for _, x := range news {
		if o, ok := x.(Object); ok {
			x = Change{resourceOf(o), keyOf(o), o}
		}
		d.Changes = append(d.Changes, x.(Change))
	}
	return d
}

// Who has no address waits for no agent.
func TestANamespaceToWhichNothingIsGrantedThaws(t *testing.T) {
	idle, _ := loadBalancer("shop", "web", "192.0.2.1")
	p := pictureOf(idle, tenant("shop", 0, 0))
	if p.take(changedTo(tenant("shop", 1, 0))); p.behind {
		t.Errorf("it waits: %+v", p.state)
	}
}

func TestAPortThatTheLedgerLacksIsTold(t *testing.T) {
	web, at := loadBalancer("shop", "web", "192.0.2.1")
	other := at.DeepCopy()
	other.Spec.Holders[0].Ports = []string{"TCP/81"}
	p := pictureOf(web, at)
	if p.take(changedTo(web, other)); p.state == nil || len(p.state.Serves["shop"]) != 1 || p.ledger {
		t.Errorf("state %+v", p.state)
	}
}

// An Address that nothing is served on any more holds up nobody.
func TestAnAddressThawsWithItsLastLoadBalancer(t *testing.T) {
	web, webAt := loadBalancer("ops", "web", "192.0.2.1")
	api, apiAt := loadBalancer("lab", "api", "192.0.2.2")
	p := pictureOf(web, webAt, api, apiAt)
	p.take(changedTo(web, webAt))
	p.take(changedTo(phased(webAt, v1alpha1.AddressReleasing)))
	if len(p.state.Serves["ops"]) != 1 {
		t.Fatalf("state %+v", p.state)
	}
	going := web.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{}
	p.take(changedTo(going))
	p.take(changedTo(Change{LoadBalancers, keyOf(web), nil}))
	if a := p.shown[Addresses][keyOf(webAt)].(*v1alpha1.Address); len(p.state.Serves["ops"]) > 0 || a.Spec.Phase != v1alpha1.AddressReleasing || p.ledger {
		t.Errorf("it is %s, and told: %+v", a.Spec.Phase, p.state.Serves)
	}
}

func TestWhatIsNotServedIsNotTold(t *testing.T) {
	_, webAt := loadBalancer("ops", "web", "192.0.2.1")
	p := pictureOf(webAt)
	if p.take(changedTo()); p.behind {
		t.Errorf("an Address without its LoadBalancer: %+v", p.state)
	}
	gone := webAt.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{}
	if g := grants(gone, "edge"); len(g) > 0 {
		t.Errorf("an Address that is being deleted grants %+v", g)
	}
}

// A stale proxy leaves to another pool's proxies what is theirs, though for the same LoadBalancer.
func TestAStaleProxyLeavesToAnotherPoolWhatIsItsOwn(t *testing.T) {
	web, webAt := loadBalancer("ops", "web", "192.0.2.1")
	others := webAt.DeepCopy()
	others.Spec.ProxyPool = "core"
	p := pictureOf(web, webAt)
	d := changedTo(web, others)
	d.Frozen.Stale = true
	if p.take(d); p.state != nil || p.granted[keyOf(web)] > 0 {
		t.Errorf("it claims %+v", p.state)
	}
}

// What was delivered before the hub changed is shown before that freezes.
func TestWhatCameBeforeTheChangeIsShown(t *testing.T) {
	web, webAt := loadBalancer("ops", "web", "192.0.2.1")
	p := pictureOf()
	p.take(Delivery{Complete: true})
	d := changedTo()
	d.Earlier = []Change{{LoadBalancers, keyOf(web), web}, {Addresses, keyOf(webAt), webAt}}
	if p.take(d); len(p.state.Serves["ops"]) != 1 {
		t.Errorf("state %+v", p.state)
	}
}

// A LoadBalancer that names no class may be of any.
func TestAClassIsHeldForWhoNamesNone(t *testing.T) {
	web, webAt := loadBalancer("ops", "web", "192.0.2.1")
	web.Spec.ClassName = ""
	p := pictureOf(web, webAt, class())
	p.take(Delivery{Complete: true, Changes: []Change{{LoadBalancers, keyOf(web), web}, {Addresses, keyOf(webAt), webAt}}})
	if p.shown[Classes][keyOf(class())] == nil {
		t.Error("its class is gone")
	}
}
