package controller_test

import (
	"fmt"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inUse: wanted addresses, shared and contested.
func inUse(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.72/29")
	p := h.proxy("1")
	p.catchUp()
	want := func(name, address string, port int32) *clusterv1.LoadBalancer {
		l := h.newLoadBalancer(name, port)
		l.Spec.Addresses = []string{address}
		h.create(l)
		return l
	}
	web := h.waitFor(want("web", "192.0.2.75", 80), "AddressGranted=True")
	if addressOf(web) != "192.0.2.75" {
		h.t.Errorf("got %s", addressOf(web))
	}
	shared := h.waitFor(want("tls", "192.0.2.75", 443), "AddressGranted=True")
	p.catchUp()
	h.waitFor(shared, "Programmed=True")
	clash := h.waitFor(want("clash", "192.0.2.75", 80), "AddressGranted=False/PortInUse", "Ready=False/PortInUse")
	h.waitFor(want("elsewhere", "198.51.100.1", 80), "AddressGranted=False/AddressNotInPool")

	// The holder of the port goes; the address stays with the other, and the port is free for one of the same namespace.
	h.delete(web)
	h.gone(web)
	h.waitFor(clash, "AddressGranted=True")
	address := h.address(shared)
	wait(h, address, "two holders", func(a *v1alpha1.Address) error {
		if len(a.Spec.Holders) != 2 || a.Spec.Phase != v1alpha1.AddressGranted {
			return fmt.Errorf("%+v", a.Spec)
		}
		return nil
	})
}

// moved: another wish, once it can be had, moves a LoadBalancer.
func moved(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.80/29")
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Programmed=True")
	before := h.address(l)
	h.change(l, func(o client.Object) { o.(*clusterv1.LoadBalancer).Spec.Addresses = []string{"192.0.2.85"} })
	wait(h, before, "Releasing", isReleasing)
	p.catchUp()
	h.waitFor(l, "Programmed=True")
	if addressOf(l) != "192.0.2.85" {
		h.t.Errorf("at %s", addressOf(l))
	}
	h.gone(before)
}

// quota: a Tenant gets no more than it may, and more as soon as it may.
func quota(h *hub) {
	h.manager(app.LeaderElection{})
	h.create(h.newPool("192.0.2.88/29"), h.newClass())
	one := int32(1)
	h.tenant(func(t *v1alpha1.Tenant) { t.Spec.Quota = &v1alpha1.TenantQuota{Addresses: &one} })
	first := h.loadBalancer("first", 80)
	h.waitFor(first, "AddressGranted=True")
	second := h.loadBalancer("second", 80)
	h.waitFor(second, "AddressGranted=False/QuotaExceeded", "Ready=False/QuotaExceeded")
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	wait(h, tenant, "usage", func(t *v1alpha1.Tenant) error {
		if u := t.Status.Usage; u == nil || u.Addresses != 1 || u.LoadBalancers != 1 || u.Ports != 1 {
			return fmt.Errorf("usage %+v", u)
		}
		return nil
	})
	two := int32(2)
	h.change(tenant, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Quota.Addresses = &two })
	h.waitFor(second, "AddressGranted=True")
}

// overlap: the older pool keeps what two pools name; what is no address is said.
func overlap(h *hub) {
	h.manager(app.LeaderElection{})
	h.create(h.newPool("192.0.2.96/30"))
	young := h.newPool("192.0.2.98/31", "192.0.2.100/32")
	young.Name += "-young"
	young.CreationTimestamp = metav1.Time{}
	h.create(young)
	wait(h, h.newPool(), "counted", func(p *v1alpha1.AddressPool) error {
		if p.Status.Free != 4 {
			return fmt.Errorf("%d free", p.Status.Free)
		}
		return condition(p.Status.Conditions, "Ready=True")
	})
	wait(h, young, "overlap", func(p *v1alpha1.AddressPool) error {
		if p.Status.Free != 1 {
			return fmt.Errorf("%d free", p.Status.Free)
		}
		return condition(p.Status.Conditions, "Ready=False/RangesOverlap")
	})
	nowhere := h.newPool("0.0.0.0/30")
	nowhere.Name += "-nowhere"
	h.create(nowhere)
	wait(h, nowhere, "not usable", func(p *v1alpha1.AddressPool) error {
		return condition(p.Status.Conditions, "Ready=False/NotSupported")
	})

	class := h.newClass()
	class.Spec.AddressPools = []string{h.name, "nonesuch"}
	h.create(class)
	wait(h, class, "Accepted", func(c *v1alpha1.LoadBalancerClass) error { return condition(c.Status.Conditions, "Accepted=True") })
	one := h.newClass()
	one.Name += "-one"
	one.Spec.Proxy.Placement = v1alpha1.PlacementOne
	h.create(one)
	wait(h, one, "refused", func(c *v1alpha1.LoadBalancerClass) error {
		return condition(c.Status.Conditions, "Accepted=False/NotSupported")
	})
}
