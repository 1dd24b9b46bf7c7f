package controller_test

import (
	"fmt"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isHeld: granted, and kept for about a day.
func isHeld(a *v1alpha1.Address) error {
	until, err := time.Parse(time.RFC3339, a.Annotations[v1alpha1.AnnotationHeldUntil])
	if err != nil {
		return err
	}
	if left := time.Until(until); a.Spec.Phase != v1alpha1.AddressGranted || left < 23*time.Hour || left > 25*time.Hour {
		return fmt.Errorf("phase %s, held for %s", a.Spec.Phase, left)
	}
	return nil
}

func notHeld(a *v1alpha1.Address) error {
	if len(a.Annotations) > 0 {
		return fmt.Errorf("annotations %v", a.Annotations)
	}
	return nil
}

// stray creates an Address without any trace of its LoadBalancer.
func (h *hub) stray(address, holder string) *v1alpha1.Address {
	h.t.Helper()
	a := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: address}, Spec: v1alpha1.AddressSpec{
		Address: address, Pool: h.name, ProxyPool: h.name, Phase: v1alpha1.AddressGranted, Holders: []v1alpha1.Holder{{Namespace: h.name, Name: holder, Ports: []string{"TCP/80"}}},
	}}
	h.create(a)
	return a
}

// missing: an Address whose LoadBalancer is missing is kept for it, for a day or as long as a person says.
func missing(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.56/30")
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	address := h.address(l)
	h.change(l, func(o client.Object) { o.SetFinalizers([]string{"example.com/other"}) })
	// Ours is put back as long as it lives.
	wait(h, l, "our finalizer", func(l *clusterv1.LoadBalancer) error {
		if len(l.Finalizers) != 2 {
			return fmt.Errorf("finalizers %v", l.Finalizers)
		}
		return nil
	})
	h.delete(l)
	wait(h, address, "Releasing", isReleasing)
	h.change(l, func(o client.Object) { o.SetFinalizers(nil) })
	h.gone(l)
	p.catchUp()
	h.gone(address)

	stray := h.stray("192.0.2.59", "ghost")
	wait(h, stray, "held", isHeld)
	pool := h.newPool()
	wait(h, pool, "a held address", func(p *v1alpha1.AddressPool) error {
		if p.Status.Held != 1 {
			return fmt.Errorf("held: %d", p.Status.Held)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, clusterv1.ConditionDegraded); c == nil || !strings.Contains(c.Message, "192.0.2.59 of missing/ghost") {
			return fmt.Errorf("condition %+v", c)
		}
		return condition(p.Status.Conditions, "Degraded=True/HolderMissing")
	})
	h.eventually("an event on the Address", func(ctx ctx) error {
		var list eventsv1.EventList
		if err := h.api.List(ctx, &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == "Address" && e.Regarding.Name == stray.Name && e.Reason == v1alpha1.ReasonHolderMissing && e.Type == "Warning" {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	})

	// The LoadBalancer comes back, and has it.
	ghost := h.loadBalancer("ghost", 80)
	h.waitFor(ghost, "AddressGranted=True")
	if addressOf(ghost) != stray.Name {
		h.t.Errorf("it has %s", addressOf(ghost))
	}
	wait(h, stray, "not held any more", notHeld)
	wait(h, pool, "plain again", func(p *v1alpha1.AddressPool) error {
		if p.Status.Held != 0 {
			return fmt.Errorf("held: %d", p.Status.Held)
		}
		return condition(p.Status.Conditions, "Degraded=False")
	})

	// A person knows that another will not come back.
	other := h.stray("192.0.2.58", "other")
	wait(h, other, "held", isHeld)
	h.expire(other)
	wait(h, other, "nothing noted", notHeld)
	p.catchUp()
	h.gone(other)

	// With its Tenant everything goes.
	last := h.stray("192.0.2.57", "last")
	wait(h, last, "held", isHeld)
	h.change(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Suspend = true })
	h.delete(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}})
	wait(h, last, "Releasing", isReleasing)
}
