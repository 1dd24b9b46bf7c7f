package controller_test

import (
	"fmt"
	"strings"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nameTaken: a Service of somebody else is left as it is, and gets none of a tenant's targets.
func nameTaken(h *hub) {
	h.manager(app.LeaderElection{})
	h.create(h.newServiceClass("ClusterIP"))
	h.tenant()
	h.create(h.newTargetGroup("10.0.0.1"))
	s := h.service("web")
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	h.create(s)
	version := s.ResourceVersion
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=False/NameTaken", "Ready=False/NameTaken")
	h.endpoints("web")
	wait(h, s, "untouched", func(s *corev1.Service) error {
		if s.ResourceVersion != version {
			return fmt.Errorf("at %s, was %s", s.ResourceVersion, version)
		}
		return nil
	})
	h.delete(l)
	h.gone(l)
	wait(h, s, "untouched", func(s *corev1.Service) error {
		if s.ResourceVersion != version {
			return fmt.Errorf("at %s, was %s", s.ResourceVersion, version)
		}
		return nil
	})

	// A name that no Service can have, of type ClusterIP: its addresses are the Service's own.
	odd := h.loadBalancer("9.web", 80)
	h.waitFor(odd, "Programmed=True", "Ready=True")
	if addressOf(odd) == "" {
		h.t.Error("it has no address")
	}
	// What the API server refuses is said.
	v6 := h.newLoadBalancer("v6", 80)
	v6.Spec.IPFamilies = []clusterv1.IPFamily{clusterv1.IPv6}
	h.create(v6)
	h.waitFor(v6, "AddressGranted=False/ServiceRefused", "Ready=False/ServiceRefused")
	// Nothing is neglected that would be unsafe.
	closed := h.newLoadBalancer("closed", 80)
	closed.Spec.SourceRanges = []string{"198.51.100.0/24"}
	h.create(closed)
	h.waitFor(closed, "Accepted=False/NotSupported", "Ready=False/NotSupported")
}

// technology: a class that comes to serve otherwise takes its LoadBalancers along, there and back.
func technology(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.224/30")
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Programmed=True")
	address := h.address(l)
	class := h.newClass()
	h.change(class, func(client.Object) {
		class.Spec.Proxy, class.Spec.Service = nil, &v1alpha1.ClassService{Type: "ClusterIP"}
	})
	wait(h, address, "Releasing", isReleasing)
	s := h.service("web")
	wait(h, l, "served by the Service", func(l *clusterv1.LoadBalancer) error {
		if err := h.api.Get(h.t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if addressOf(l) != s.Spec.ClusterIP {
			return fmt.Errorf("at %q, not %s", addressOf(l), s.Spec.ClusterIP)
		}
		return condition(l.Status.Conditions, "Ready=True")
	})
	p.catchUp()
	h.gone(address)
	// Suspended, it keeps the Service and gets nothing.
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	h.change(tenant, func(client.Object) { tenant.Spec.Suspend = true })
	h.waitFor(l, "Accepted=False/Suspended")
	h.endpoints("web")
	h.change(tenant, func(client.Object) { tenant.Spec.Suspend = false })
	h.waitFor(l, "Ready=True")
	h.endpoints("web", "10.0.0.1 ready serving")
	h.change(class, func(client.Object) {
		class.Spec.Service, class.Spec.Proxy = nil, &v1alpha1.ClassProxy{Pool: h.name}
	})
	h.gone(s)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	wait(h, l, "served by proxies", func(l *clusterv1.LoadBalancer) error {
		if !strings.HasPrefix(addressOf(l), "192.0.2.") {
			return fmt.Errorf("at %s", addressOf(l))
		}
		return condition(l.Status.Conditions, "Programmed=True")
	})
	h.endpoints("web")
}

// serviceQuota: Services count with what the ledger grants.
func serviceQuota(h *hub) {
	h.manager(app.LeaderElection{})
	h.stageQuota("192.0.2.228/30", 2)
	byProxy := h.newLoadBalancer("by-proxy", 80)
	byProxy.Spec.ClassName = h.name + "-proxy"
	h.create(byProxy)
	h.waitFor(byProxy, "AddressGranted=True")
	first := h.loadBalancer("first", 80)
	h.waitFor(first, "Ready=True")
	second := h.loadBalancer("second", 80)
	h.waitFor(second, "AddressGranted=False/QuotaExceeded", "Ready=False/QuotaExceeded")
	h.delete(byProxy)
	h.waitFor(second, "Ready=True")
	other := h.newLoadBalancer("other", 81)
	other.Spec.ClassName = h.name + "-proxy"
	h.create(other)
	h.waitFor(other, "AddressGranted=False/QuotaExceeded")
	h.delete(first)
	h.waitFor(other, "AddressGranted=True")
}

// stageQuota is a Tenant that may have so many LoadBalancers, with a class of either kind.
func (h *hub) stageQuota(addresses string, loadBalancers int32) {
	h.t.Helper()
	proxies := h.newClass()
	proxies.Name += "-proxy"
	h.create(h.newPool(addresses), proxies, h.newServiceClass("ClusterIP"))
	h.tenant(func(t *v1alpha1.Tenant) { t.Spec.Quota = &v1alpha1.TenantQuota{LoadBalancers: &loadBalancers} })
	h.create(h.newTargetGroup("10.0.0.1"))
}
