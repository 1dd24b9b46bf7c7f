package controller_test

import (
	"context"
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type ctx = context.Context

// change updates an object until that succeeds.
func (h *hub) change(o client.Object, f func(client.Object)) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%T %s to be changed", o, o.GetName()), func(ctx ctx) error {
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		f(o)
		return h.api.Update(ctx, o)
	})
}

// silent: a silent proxy holds an address until it is back, fenced or deleted; the pool says which.
func silent(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.40/32")
	one, two := h.proxy("1"), h.proxy("2")
	one.catchUp()
	two.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	one.catchUp()
	two.catchUp()
	h.waitFor(l, "Programmed=True")
	two.die()

	address := h.address(l)
	h.delete(l)
	h.gone(l)
	waiter := h.loadBalancer("waiter", 80)
	one.catchUp()
	pool := h.newPool()
	wait(h, pool, "Degraded", func(p *v1alpha1.AddressPool) error {
		if err := condition(p.Status.Conditions, "Degraded=True/ReleaseBlocked"); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, clusterv1.ConditionDegraded); !strings.Contains(c.Message, two.name) || strings.Contains(c.Message, one.name) {
			return fmt.Errorf("message %q", c.Message)
		}
		return nil
	})
	h.waitFor(waiter, "AddressGranted=False/PoolExhausted", "Ready=False/PoolExhausted")
	wait(h, address, "Releasing", isReleasing)

	h.change(&v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: two.name}}, func(o client.Object) {
		o.(*v1alpha1.Proxy).Spec.Fenced = &v1alpha1.Fence{By: "a person", Reason: "its host is gone"}
	})
	h.waitFor(waiter, "AddressGranted=True")
	if addressOf(waiter) != address.Name {
		h.t.Errorf("%s, want %s", addressOf(waiter), address.Name)
	}
	wait(h, pool, "plain again", func(p *v1alpha1.AddressPool) error { return condition(p.Status.Conditions, "Degraded=False") })

	// Open connections hold it too.
	one.catchUp()
	h.waitFor(waiter, "Programmed=True")
	one.open = 2
	h.delete(waiter)
	h.gone(waiter)
	next := h.loadBalancer("next", 80)
	one.catchUp()
	h.waitFor(next, "AddressGranted=False/PoolExhausted")
	one.open = 0
	one.catchUp()
	h.waitFor(next, "AddressGranted=True")
}

// waiters: the oldest is served first, whatever their names.
func waiters(h *hub) {
	stop := h.manager(app.LeaderElection{})
	h.stage("192.0.2.48/32")
	p := h.proxy("1")
	p.catchUp()
	holder := h.loadBalancer("holder", 80)
	h.waitFor(holder, "AddressGranted=True")
	p.catchUp()
	old := h.loadBalancer("z-old", 80)
	h.waitFor(old, "AddressGranted=False/PoolExhausted")
	young := h.younger(old, "a-young")
	h.waitFor(young, "AddressGranted=False/PoolExhausted")

	h.delete(holder)
	h.gone(holder)
	p.catchUp()
	h.waitFor(old, "AddressGranted=True")
	h.waitFor(young, "AddressGranted=False/PoolExhausted")

	// A new leader keeps the order.
	older := h.younger(young, "b-third")
	h.waitFor(older, "AddressGranted=False/PoolExhausted")
	h.delete(old)
	h.gone(old)
	stop()
	p.run()
	p.beat()
	before := h.writes()
	h.manager(app.LeaderElection{})
	h.waitFor(young, "AddressGranted=True")
	for _, w := range before() {
		if w.Resource == "addresses" && w.Verb != "delete" && w.Verb != "create" {
			h.t.Errorf("the new leader wrote %s %s: a proxy would have to apply that once more before it is free", w.Verb, w.Name)
		}
	}
	h.waitFor(older, "AddressGranted=False/PoolExhausted")

	// More addresses: whoever waits gets one at once.
	h.change(h.newPool(), func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.Ranges = []string{"192.0.2.48/31"} })
	h.waitFor(older, "AddressGranted=True")
}

// kept: a LoadBalancer that somebody else's finalizer keeps says that it is served no more, once and for all.
func kept(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.44/32")
	p := h.proxy("1")
	p.catchUp()
	l := h.newLoadBalancer("kept", 80)
	l.Finalizers = append(l.Finalizers, "example.com/kept")
	h.create(l)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Ready=True")
	h.delete(l)
	h.waitFor(l, "AddressGranted=False/Deleting", "Programmed=False/Deleting", "Ready=False/Deleting", "Degraded=False/AsExpected")
	c := meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionReady)
	if len(l.Status.Addresses)+len(l.Status.Ports) > 0 || len(l.Finalizers) != 1 || !strings.Contains(c.Message, l.Finalizers[0]) {
		h.t.Errorf("finalizers %q, status %+v", l.Finalizers, l.Status)
	}
	p.catchUp()
	next := h.loadBalancer("next", 80)
	h.waitFor(next, "AddressGranted=True")
	version := l.ResourceVersion
	if h.waitFor(l, "Ready=False/Deleting"); l.ResourceVersion != version {
		h.t.Errorf("it was written again: %+v", l.Status)
	}
	h.change(l, func(o client.Object) { o.SetFinalizers(nil) })
	h.gone(l)
}

// younger creates a LoadBalancer whose creation is a second later at least.
func (h *hub) younger(than *clusterv1.LoadBalancer, name string) *clusterv1.LoadBalancer {
	h.t.Helper()
	var l *clusterv1.LoadBalancer
	h.eventually("a younger LoadBalancer", func(ctx ctx) error {
		dry := h.newLoadBalancer(name, 80)
		if err := h.api.Create(ctx, dry, client.DryRunAll); err != nil {
			return err
		}
		if !dry.CreationTimestamp.After(than.CreationTimestamp.Time) {
			return fmt.Errorf("created in the same second")
		}
		l = h.newLoadBalancer(name, 80)
		return h.api.Create(ctx, l)
	})
	return l
}

// quarantine: a proven address rests before anybody else has it.
func quarantine(h *hub) {
	h.manager(app.LeaderElection{})
	pool := h.newPool("192.0.2.64/32")
	pool.Spec.Quarantine = &metav1.Duration{Duration: 720 * 3600e9}
	h.create(pool, h.newClass())
	h.tenant()
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	address := h.address(l)
	h.delete(l)
	h.gone(l)
	p.catchUp()
	waiter := h.loadBalancer("waiter", 80)
	h.waitFor(waiter, "AddressGranted=False/PoolExhausted")
	wait(h, address, "Releasing", isReleasing)
	h.change(pool, func(o client.Object) { o.(*v1alpha1.AddressPool).Spec.Quarantine = nil })
	h.waitFor(waiter, "AddressGranted=True")
}
