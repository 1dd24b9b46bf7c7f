package controller_test

import (
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// takenAlong: what goes with clusterctl's word takes its address along, and nobody gets it here before a person says so.
func takenAlong(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.196/32")
	p := h.proxy("1")
	p.catchUp()
	l := h.newLoadBalancer("web", 80)
	l.Annotations["clusterctl.cluster.x-k8s.io/delete-for-move"] = ""
	h.create(l)
	h.waitFor(l, "AddressGranted=True")
	address := h.address(l)
	h.delete(l)
	h.gone(l)
	isMoved := func(a *v1alpha1.Address) error {
		if a.Spec.Phase != v1alpha1.AddressMoved || len(a.Spec.Holders) != 1 || a.Spec.Holders[0].Name != "web" {
			return fmt.Errorf("%s of %v", a.Spec.Phase, a.Spec.Holders)
		}
		return nil
	}
	wait(h, address, "Moved", isMoved)
	again := h.loadBalancer("web", 80)
	h.waitFor(again, "AddressGranted=False/PoolExhausted")
	wish := h.newLoadBalancer("wish", 80)
	wish.Spec.Addresses = []string{address.Name}
	h.create(wish)
	h.waitFor(wish, "AddressGranted=False/AddressInUse")
	p.catchUp()
	wait(h, address, "Moved", isMoved)
	wait(h, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, "without it", func(t *v1alpha1.Tenant) error {
		if t.Status.Usage == nil || t.Status.Usage.Addresses != 0 {
			return fmt.Errorf("usage %+v", t.Status.Usage)
		}
		return nil
	})
	// What moved counts in the Tenant's bounds, so that nobody empties the pool by having one after the other move.
	one := int32(1)
	h.change(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(o client.Object) {
		o.(*v1alpha1.Tenant).Spec.Quota = &v1alpha1.TenantQuota{Addresses: &one}
	})
	h.waitFor(again, "AddressGranted=False/QuotaExceeded")
	h.delete(address)
	h.eventually("one of them to be granted it", func(ctx ctx) error {
		for _, l := range []*clusterv1.LoadBalancer{again, wish} {
			if err := h.api.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: l.Name}, l); err != nil {
				return err
			}
			if addressOf(l) == address.Name {
				return nil
			}
		}
		return fmt.Errorf("neither")
	})
}
