package controller_test

import (
	"fmt"
	"time"

	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// epochs: when a proxy says that the hub has changed, all Tenants are told; an agent's Lease says when it has written all
// again, and one that doesn't come is given up waiting for.
func epochs(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.192/30")
	other := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name + "-other"}}
	h.create(other)
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	p := h.proxy("1")
	p.epoch = 41 // other scenarios' proxies raise epochs too
	p.catchUp()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: v1alpha1.AgentLease, Annotations: map[string]string{v1alpha1.AnnotationClusterUID: "c"}}}
	renew := func(epoch string) {
		lease.Annotations[v1alpha1.AnnotationEpoch] = epoch
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	}
	renew("0")
	h.create(lease)

	is := func(hub, agent int64) func(*v1alpha1.Tenant) error {
		return func(t *v1alpha1.Tenant) error {
			if t.Status.HubEpoch != hub || t.Status.AgentEpoch != agent {
				return fmt.Errorf("hub %d, agent %d", t.Status.HubEpoch, t.Status.AgentEpoch)
			}
			return nil
		}
	}
	held := func(t *v1alpha1.Tenant) error {
		until, err := time.Parse(time.RFC3339, t.Annotations[v1alpha1.AnnotationHeldUntil])
		if left := time.Until(until); err != nil || left < 23*time.Hour || left > 25*time.Hour {
			return fmt.Errorf("held until %q", t.Annotations[v1alpha1.AnnotationHeldUntil])
		}
		return nil
	}
	p.changed = v1alpha1.ReasonHubRestored
	p.catchUp()
	wait(h, tenant, "told", is(42, 0))
	wait(h, other, "told", is(42, 0))
	wait(h, tenant, "waited for", held)
	wait(h, other, "waited for", held)
	late := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name + "-late"}}
	h.create(late)
	wait(h, late, "told", is(42, 0))

	h.change(lease, func(client.Object) { renew("43") }) // a word of another hub
	h.change(lease, func(client.Object) { renew("42") })
	wait(h, tenant, "written again", is(42, 42))
	wait(h, tenant, "waited for no longer", func(t *v1alpha1.Tenant) error {
		if s := t.Annotations[v1alpha1.AnnotationHeldUntil]; s != "" {
			return fmt.Errorf("held until %s", s)
		}
		return nil
	})
	h.change(other, func(o client.Object) {
		o.GetAnnotations()[v1alpha1.AnnotationHeldUntil] = time.Now().UTC().Format(time.RFC3339)
	})
	wait(h, other, "given up waiting for", is(42, 42))
	h.eventually("an event on the Tenant", func(ctx ctx) error {
		var list eventsv1.EventList
		if err := h.api.List(ctx, &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Kind == "Tenant" && e.Regarding.Name == other.Name && e.Reason == v1alpha1.ReasonAgentSilent {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(list.Items))
	})

	// It changed once more, to a copy in which the epoch was another.
	p.epoch, p.changed = 42, ""
	p.catchUp()
	p.changed = v1alpha1.ReasonHubRestored
	p.catchUp()
	wait(h, tenant, "told again", is(43, 42))
	p.epoch, p.changed = 43, ""
	p.catchUp()
	h.change(lease, func(client.Object) { renew("43") })
	wait(h, tenant, "written again", is(43, 43))
	h.delete(late)
	h.delete(other)
}
