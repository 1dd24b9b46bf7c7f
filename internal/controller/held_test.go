package controller_test

import (
	"fmt"
	"slices"
	"strings"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heldBy says why a deletion isn't said to be held with such words.
func heldBy(conditions []metav1.Condition, words string) error {
	if err := condition(conditions, "DeletionHeld=True/InUse"); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionDeletionHeld); !strings.Contains(c.Message, words) {
		return fmt.Errorf("it says %q, not %q", c.Message, words)
	}
	return nil
}

// held: what is in use and is deleted stays, with all that is served, until nothing uses it, and says so.
func held(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("203.0.113.240/29")
	p := h.proxy("1")
	p.catchUp()
	web, api := h.loadBalancer("web", 80), h.loadBalancer("api", 80)
	h.waitFor(web, "AddressGranted=True")
	h.waitFor(api, "AddressGranted=True")
	p.catchUp()
	h.waitFor(web, "Ready=True")

	class, pool, tn := h.newClass(), h.newPool(), &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	// The finalizers come with the first look.
	wait(h, class, "guarded", func(c *v1alpha1.LoadBalancerClass) error { return guarded(c.Finalizers) })
	wait(h, pool, "guarded", func(p *v1alpha1.AddressPool) error { return guarded(p.Finalizers) })
	h.delete(class)
	h.delete(pool)
	h.delete(tn)
	wait(h, class, "held", func(c *v1alpha1.LoadBalancerClass) error {
		return heldBy(c.Status.Conditions, "LoadBalancers of this class are served on: held/api, held/web.")
	})
	wait(h, pool, "held", func(p *v1alpha1.AddressPool) error {
		if err := condition(p.Status.Conditions, "Ready=False/Deleting"); err != nil {
			return err
		}
		return heldBy(p.Status.Conditions, "(granted: 2, being released: 0)")
	})
	wait(h, tn, "held", func(t *v1alpha1.Tenant) error {
		return heldBy(t.Status.Conditions, "LoadBalancers of this Tenant are served on: api, web.")
	})
	h.waitFor(web, "Ready=True")
	// Nothing new comes out of the pool.
	late := h.loadBalancer("late", 80)
	h.waitFor(late, "AddressGranted=False")
	if c := meta.FindStatusCondition(late.Status.Conditions, "AddressGranted"); !strings.Contains(c.Message, "is being deleted") {
		h.t.Errorf("it says %q", c.Message)
	}
	h.delete(late)
	h.gone(late)

	h.delete(api)
	h.gone(api)
	wait(h, class, "held by the other", func(c *v1alpha1.LoadBalancerClass) error {
		return heldBy(c.Status.Conditions, "LoadBalancers of this class are served on: held/web.")
	})
	h.delete(web)
	h.gone(web)
	h.gone(class)
	p.catchUp()
	h.gone(pool)
	h.gone(tn)
}

func guarded(finalizers []string) error {
	if !slices.Contains(finalizers, v1alpha1.FinalizerInUse) {
		return fmt.Errorf("finalizers %q", finalizers)
	}
	return nil
}
