package controller_test

import (
	"fmt"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// poolSays waits until a pool is Ready and its message says that, and no more if it is empty.
func (h *hub) poolSays(pool *v1alpha1.AddressPool, want string) {
	h.t.Helper()
	wait(h, pool, fmt.Sprintf("saying %q", want), func(p *v1alpha1.AddressPool) error {
		if err := condition(p.Status.Conditions, "Ready=True"); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if c.ObservedGeneration != p.Generation || !strings.Contains(c.Message, want) || want == "" && c.Message != "" {
			return fmt.Errorf("it says %q of generation %d", c.Message, c.ObservedGeneration)
		}
		return nil
	})
}

// ranges changes what a pool has.
func (h *hub) ranges(pool *v1alpha1.AddressPool, ranges ...string) {
	h.t.Helper()
	h.change(pool, func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.Ranges = ranges })
}

// narrowed: a range goes while an address of it is granted. That is served on as before, and the pool says so, another manager too,
// until its LoadBalancer goes; nobody else gets it, nor does that LoadBalancer when it is made anew.
func narrowed(h *hub) {
	stop := h.manager(app.LeaderElection{})
	h.stage("203.0.113.112/32")
	p := h.proxy("1")
	p.catchUp()
	web := h.loadBalancer("web", 80)
	h.waitFor(web, "AddressGranted=True")
	p.catchUp()
	h.waitFor(web, "Ready=True")
	address := h.address(web)
	if err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(address), address); err != nil {
		h.t.Fatal(err)
	}
	pool, version := h.newPool(), address.ResourceVersion
	h.poolSays(pool, "")

	h.ranges(pool, "203.0.113.113/32")
	h.poolSays(pool, "in use by 1 grant")
	wants := h.newLoadBalancer("wants", 80)
	wants.Spec.Addresses = []string{address.Name}
	h.create(wants)
	h.waitFor(wants, "AddressGranted=False/AddressNotInPool")
	next := h.loadBalancer("next", 80)
	h.waitFor(next, "AddressGranted=True")
	waiter := h.loadBalancer("waiter", 80)
	h.waitFor(waiter, "AddressGranted=False/PoolExhausted")
	p.catchUp()
	h.waitFor(next, "Ready=True")
	stop()
	h.manager(app.LeaderElection{})
	h.change(web, func(o client.Object) { o.SetLabels(map[string]string{"looked": "at"}) })
	h.waitFor(web, "AddressGranted=True", "Programmed=True", "Ready=True", "Degraded=False")
	wait(h, address, "as it was", func(a *v1alpha1.Address) error {
		if a.ResourceVersion != version || addressOf(web) != a.Name {
			h.t.Fatalf("it was written: %+v; the LoadBalancer shows %s", a, addressOf(web))
		}
		return nil
	})
	h.poolSays(pool, "in use by 1 grant")

	h.delete(web)
	h.gone(web)
	wait(h, address, "Releasing", isReleasing)
	again := h.loadBalancer("web", 80)
	h.waitFor(again, "AddressGranted=False/PoolExhausted")
	p.catchUp()
	h.gone(address)
	h.poolSays(pool, "")
	h.waitFor(waiter, "AddressGranted=False/PoolExhausted")
	h.waitFor(again, "AddressGranted=False/PoolExhausted")

	h.ranges(pool, "203.0.113.112/31")
	wait(h, address, "granted again, as its range is back", func(a *v1alpha1.Address) error {
		if a.Spec.Phase != v1alpha1.AddressGranted {
			return fmt.Errorf("%+v", a.Spec)
		}
		return nil
	})
}

// letGo: where the pool says so, nobody waits for a silent proxy, as soon as the pool says it; a live one is waited for, and so is the
// silent one once it is back.
func letGo(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("203.0.113.116/32")
	one, two := h.proxy("1"), h.proxy("2")
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	one.catchUp()
	two.catchUp()
	h.waitFor(l, "Programmed=True")
	address := h.address(l)
	two.die()
	h.delete(l)
	h.gone(l)
	next := h.loadBalancer("next", 80)
	one.catchUp()
	pool := h.newPool()
	h.poolIs(pool, "Degraded=True/ReleaseBlocked")
	h.waitFor(next, "AddressGranted=False/PoolExhausted")

	h.onSilent(pool, "Release")
	h.waitFor(next, "AddressGranted=True")
	if addressOf(next) != address.Name {
		h.t.Errorf("%s, want %s", addressOf(next), address.Name)
	}
	h.poolIs(pool, "Degraded=False")
	one.catchUp()
	h.waitFor(next, "Programmed=True")

	// Said before: it is free once the live one has let go, and not before.
	h.delete(next)
	h.gone(next)
	third := h.loadBalancer("third", 80)
	h.waitFor(third, "AddressGranted=False/PoolExhausted")
	wait(h, address, "Releasing", isReleasing)
	one.catchUp()
	h.waitFor(third, "AddressGranted=True")
	one.catchUp()
	h.waitFor(third, "Programmed=True")

	// The one that was silent is waited for again from when it is back.
	h.onSilent(pool, "Hold")
	h.poolIs(pool, "Degraded=False")
	h.delete(third)
	h.gone(third)
	one.catchUp()
	h.poolIs(pool, "Degraded=True/ReleaseBlocked")
	two.renew()
	two.repeat(renewEvery, two.tryRenew)
	h.poolIs(pool, "Degraded=False")
	h.onSilent(pool, "Release")
	h.poolIs(pool, "Degraded=False")
	fourth := h.loadBalancer("fourth", 80)
	h.waitFor(fourth, "AddressGranted=False/PoolExhausted")
	wait(h, address, "Releasing", isReleasing)
	two.catchUp()
	h.waitFor(fourth, "AddressGranted=True")
}

// onSilent changes what a silent proxy does to a pool's addresses.
func (h *hub) onSilent(pool *v1alpha1.AddressPool, what v1alpha1.OnSilentProxy) {
	h.t.Helper()
	h.change(pool, func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.OnSilentProxy = what })
}

// poolIs waits for a condition of a pool in its present generation.
func (h *hub) poolIs(pool *v1alpha1.AddressPool, want string) {
	h.t.Helper()
	wait(h, pool, want, func(p *v1alpha1.AddressPool) error {
		kind, _, _ := strings.Cut(want, "=")
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.ObservedGeneration != p.Generation {
			return fmt.Errorf("%s speaks of generation %d, not %d", kind, c.ObservedGeneration, p.Generation)
		}
		return condition(p.Status.Conditions, want)
	})
}
