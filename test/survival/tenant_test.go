package survival

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/fleet"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tenantDeleted: a Tenant is deleted while its agent is at work and its Services are served. Nothing happens to them, and the
// Tenant says what holds it. When the last Service is gone so is the Tenant, and its agent brings nothing back.
func tenantDeleted(t *testing.T, w *world) {
	leaving := w.Tenants[1]
	w.window(t, w.all(), [2]int{held, held}, func() { w.deleteHeld(t, leaving) })
	a := w.web[1]
	w.web[1] = netip.Addr{}
	w.window(t, w.all(), [2]int{held, 0}, func() {
		deleteService(t, leaving, "web")
		w.awaitTenantGone(t, leaving, a)
	})
}

// tenantLost: a tenant's cluster is gone for good, and its agent with it. What it made is served on, for as long as it takes a
// person to see it; its nodes, here, live on. Then the Tenant is suspended and deleted, and all of it goes without its agent.
func tenantLost(t *testing.T, w *world) {
	lost := w.Tenants[1]
	w.window(t, w.all(), [2]int{held, held}, func() {
		must(t, lost.Agent.Stop(t.Context()))
		must(t, lost.StopAPIServer(t.Context()))
		if scaled(0, time.Minute) > 0 {
			eventually(t, 4*time.Minute, "the Tenant to say that its agent is silent", func(ctx context.Context) error {
				return w.says(ctx, lost, v1alpha1.ConditionAgentConnected, v1alpha1.ReasonAgentSilent)
			})
		}
		w.deleteHeld(t, lost)
	})
	a := w.web[1]
	w.web[1] = netip.Addr{}
	w.window(t, w.all(), [2]int{held, 0}, func() {
		must(t, w.Hub.API.Patch(t.Context(), tenantOf(lost), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))))
		w.awaitTenantGone(t, lost, a)
	})
}

func tenantOf(t *fleet.Tenant) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: t.Name()}}
}

// says is an error unless a Tenant's condition has that reason.
func (w *world) says(ctx context.Context, tenant *fleet.Tenant, condition, reason string) error {
	o := tenantOf(tenant)
	if err := w.Hub.API.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(o.Status.Conditions, condition); c == nil || c.Reason != reason {
		return fmt.Errorf("its condition is %v", c)
	}
	return nil
}

// deleteHeld deletes a Tenant and sees that it is held.
func (w *world) deleteHeld(t *testing.T, tenant *fleet.Tenant) {
	t.Helper()
	must(t, w.Hub.API.Delete(t.Context(), tenantOf(tenant)))
	held := func(ctx context.Context) error {
		return w.says(ctx, tenant, v1alpha1.ConditionDeletionHeld, v1alpha1.ReasonInUse)
	}
	eventually(t, soon, "the Tenant to say what holds it", held)
	throughout(t, 3*time.Second, "the Tenant is held", held)
}

// awaitTenantGone waits until nothing is left of a Tenant that had an address, and sees that nothing comes back.
func (w *world) awaitTenantGone(t *testing.T, tenant *fleet.Tenant, a netip.Addr) {
	t.Helper()
	nothing := func(ctx context.Context) error {
		o, namespace := tenantOf(tenant), &v1.Namespace{}
		if err := gone(o, w.Hub.API.Get(ctx, client.ObjectKeyFromObject(o), o)); err != nil {
			return err
		}
		if err := gone(namespace, w.Hub.API.Get(ctx, client.ObjectKey{Name: tenant.Name()}, namespace)); err != nil {
			return err
		}
		list := &clusterv1.LoadBalancerList{}
		if err := w.Hub.API.List(ctx, list, client.InNamespace(tenant.Name())); err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("there are %d LoadBalancers", len(list.Items))
		}
		return gone(w.Ledger(ctx, a))
	}
	eventually(t, soon, "nothing to be left of "+tenant.Name(), nothing)
	if err := refuses(t.Context(), a, w.all()...); err != nil {
		t.Error(err)
	}
	throughout(t, 3*time.Second, "nothing of "+tenant.Name()+" comes back", nothing)
}
