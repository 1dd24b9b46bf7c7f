package proxy

import (
	"fmt"
	"runtime"
	"slices"
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

// An older copy may grant here what has become another pool's since, or, where this proxy was cut off for a while, somebody
// else's. Only who serves it now knows, and says so before the ledger has thawed.
func TestAFrozenProxyServesNothingThatItDidNotServe(t *testing.T) {
	web, webAt := loadBalancer("shop", "web", "192.0.2.8")
	_, old := loadBalancer("shop", "web", "192.0.2.7")
	_, now := loadBalancer("lab", "api", "192.0.2.7")
	now.Spec.ProxyPool = "core"
	wider := webAt.DeepCopy()
	wider.Spec.Holders[0].Ports = append(wider.Spec.Holders[0].Ports, "TCP/81")
	for name, c := range map[string]struct {
		shown []Object
		heard *v1alpha1.Address
	}{
		"another pool's":      {[]Object{now}, old},
		"nobody's that it is": {nil, old},
		"another port's":      {nil, wider},
	} {
		t.Run(name, func(t *testing.T) {
			other, otherAt := loadBalancer("ops", "own", "192.0.2.9")
			p := pictureOf(append(c.shown, web, webAt, other, otherAt)...)
			was := p.shown[Addresses][keyOf(c.heard)]
			told := func(want ...string) {
				t.Helper()
				var got []string
				for _, all := range p.state.Serves {
					for _, s := range all {
						got = append(got, s.Address)
					}
				}
				if slices.Sort(got); !slices.Equal(got, want) || p.ledger || p.shown[Addresses][keyOf(c.heard)] != was {
					t.Fatalf("%v are told, wanted %v; %s is %+v", got, want, c.heard.Name, p.shown[Addresses][keyOf(c.heard)])
				}
			}
			p.take(changedTo(web, webAt, c.heard))
			told("192.0.2.9")
			p.take(changedTo(c.heard)) // Nor when it hears of it alone.
			told("192.0.2.9")
			if p.take(changedTo(other, otherAt)); p.behind || p.shown[Addresses][keyOf(c.heard)] != Object(c.heard) {
				t.Errorf("it is behind once the ledger has all: %+v", p.state)
			}
		})
	}
}

// Nor does its namespace thaw as if it had no address.
func TestANamespaceToWhichMoreIsGrantedWaitsForItsAgent(t *testing.T) {
	web, webAt := loadBalancer("shop", "web", "192.0.2.1")
	other, otherAt := loadBalancer("ops", "own", "192.0.2.9")
	p := pictureOf(web, tenant("shop", 0, 0), other, otherAt)
	p.take(changedTo(web, webAt, tenant("shop", 1, 0)))
	if p.thawed["shop"] {
		t.Fatal("it thawed")
	}
	p.take(changedTo(webAt, otherAt))
	if !p.ledger || p.thawed["shop"] || p.granted[keyOf(web)] != 1 {
		t.Fatalf("the ledger has thawed, and its namespace with it: %+v", p.state)
	}
	if p.take(changedTo(tenant("shop", 1, 1))); p.behind {
		t.Errorf("it waits: %+v", p.state)
	}
}

// What an older copy allows is no news for who was allowed more since.
func TestATenantAndItsClassThawWithWhatTheyAllow(t *testing.T) {
	web, webAt := loadBalancer("shop", "web", "192.0.2.1")
	api, apiAt := loadBalancer("lab", "api", "192.0.2.2")
	other, otherAt := loadBalancer("ops", "own", "192.0.2.9")
	other.Spec.ClassName = "else"
	before, elsewhere := tenant("shop", 0, 0), tenant("idle", 0, 0)
	suspended := func(t *v1alpha1.Tenant) *v1alpha1.Tenant {
		t = t.DeepCopy()
		t.Spec.Suspend = true
		return t
	}
	moved := class()
	moved.Spec.Proxy.Pool = "core"
	unused := class()
	unused.Name = "unused"
	p := pictureOf(web, webAt, api, apiAt, other, otherAt, class(), before, elsewhere, tenant("lab", 0, 0))
	isSuspended := func(name string) bool { return p.shown[Tenants][Key{Name: name}].(*v1alpha1.Tenant).Spec.Suspend }
	pool := func() string { return p.shown[Classes][keyOf(moved)].(*v1alpha1.LoadBalancerClass).Spec.Proxy.Pool }

	p.take(changedTo(web, webAt, api, apiAt, other, moved, unused, suspended(tenant("shop", 1, 0)), suspended(elsewhere), tenant("lab", 1, 0)))
	if isSuspended("shop") || pool() != "edge" {
		t.Fatalf("its Tenant is suspended: %v; its class is of pool %s", isSuspended("shop"), pool())
	}
	if !isSuspended("idle") || p.shown[Classes][keyOf(unused)] == nil {
		t.Error("a Tenant and a class by which nothing is served wait")
	}
	p.take(changedTo(suspended(tenant("shop", 1, 1))))
	if !isSuspended("shop") || pool() != "edge" {
		t.Fatalf("shop has thawed: its Tenant is suspended: %v; the class that lab has too is of pool %s", isSuspended("shop"), pool())
	}
	if p.take(changedTo(tenant("lab", 1, 1))); pool() != "core" || p.ledger {
		t.Errorf("both have thawed: their class is of pool %s", pool())
	}
}
