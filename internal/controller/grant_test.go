package controller_test

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// granted: every live proxy must be through; deletion frees once every proxy has let go.
func granted(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.0/30")
	one, two := h.proxy("1"), h.proxy("2")
	one.catchUp()
	two.catchUp()

	l := h.loadBalancer("web", 80)
	h.waitFor(l, "Accepted=True", "AddressGranted=True", "Programmed=False/WaitingForProxies", "Ready=False/WaitingForProxies")
	one.catchUp()
	h.waitFor(l, "Programmed=False/WaitingForProxies")
	two.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True", "Degraded=False")
	if l.Status.TargetKind != "TargetGroup.fairlead.dev" || len(l.Status.Targets) != 1 || l.Status.Targets[0].Name != "nodes-0" || len(l.Status.Ports) != 1 {
		h.t.Errorf("status %+v", l.Status)
	}

	second := h.loadBalancer("api", 80)
	one.catchUp()
	two.catchUp()
	h.waitFor(second, "AddressGranted=True")
	one.catchUp()
	two.catchUp()
	h.waitFor(second, "Programmed=True", "Ready=True")
	if a, b := addressOf(l), addressOf(second); a == b {
		h.t.Errorf("both have %s", a)
	}

	// Deleted: first the ledger says Releasing, then the LoadBalancer goes.
	address := h.address(l)
	h.delete(l)
	h.gone(l)
	wait(h, address, "Releasing", isReleasing)
	one.catchUp()
	wait(h, address, "Releasing", isReleasing)
	two.catchUp()
	h.gone(address)

	// Reborn while its address is being released: it gets the same one at once.
	address = h.address(second)
	h.delete(second)
	h.gone(second)
	second = h.loadBalancer("api", 80)
	h.waitFor(second, "AddressGranted=True")
	if addressOf(second) != address.Name {
		h.t.Errorf("reborn with %s, had %s", addressOf(second), address.Name)
	}

	// Another port: the ledger lists it, and the generation is judged anew.
	h.change(second, func(client.Object) {
		second.Spec.Ports = append(second.Spec.Ports, clusterv1.Port{Port: 443, Protocol: clusterv1.ProtocolTCP})
	})
	wait(h, address, "two ports", func(a *v1alpha1.Address) error {
		if got := fmt.Sprint(a.Spec.Holders[0].Ports); got != "[TCP/80 TCP/443]" {
			return fmt.Errorf("ports %s", got)
		}
		return nil
	})
	one.catchUp()
	two.catchUp()
	h.waitFor(second, "Programmed=True")
}

// joined: no proxies; one that joins holds up nobody; a dead one doesn't either; nothing is un-programmed.
func joined(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.8/30")
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True", "Programmed=False/NoProxies", "Ready=False/NoProxies")
	one := h.proxy("1")
	h.proxy("2") // registered, and has applied nothing
	one.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True")

	three := h.proxy("3")
	three.catchUp()
	three.die()
	second := h.loadBalancer("api", 80)
	h.waitFor(second, "AddressGranted=True")
	one.catchUp()
	h.waitFor(second, "Programmed=True")

	one.die()
	third := h.loadBalancer("db", 80)
	h.waitFor(third, "Programmed=False/WaitingForProxies") // edge-2 is starting
	h.waitFor(l, "Programmed=True", "Ready=True")
}

// refused: what a proxy can't serve costs that port; a restarted proxy's older words are void.
func refused(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.16/30")
	p := h.proxy("1")
	p.refused[h.name] = []v1alpha1.RefusedFrontend{{LoadBalancer: "web", Port: 80, Protocol: clusterv1.ProtocolTCP, Problem: v1alpha1.Problem{
		Reason: clusterv1.ReasonPortNotPermitted, Message: "the proxy may not bind port 80: use one above 1023",
	}}}
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Programmed=False/NotServed", "Ready=False/NotServed")
	if s := l.Status.Ports[0]; s.Error != clusterv1.ReasonPortNotPermitted || s.Message == "" {
		h.t.Errorf("port %+v", s)
	}
	h.change(l, func(client.Object) {
		l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Port: 8080, Protocol: clusterv1.ProtocolTCP})
	})
	h.eventually("the second port to be in the ledger", func(ctx ctx) error {
		a := h.address(l)
		if err := h.api.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if len(a.Spec.Holders[0].Ports) != 2 {
			return fmt.Errorf("ports %v", a.Spec.Holders[0].Ports)
		}
		return nil
	})
	p.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True", "Degraded=True/PartlyServed")

	delete(p.refused, h.name)
	p.catchUp()
	h.waitFor(l, "Programmed=True", "Degraded=False")
	if s := l.Status.Ports[0]; s.Error != "" {
		h.t.Errorf("port %+v", s)
	}
	shop := h.newLoadBalancer("shop")
	shop.Spec.Ports = []clusterv1.Port{{Port: 443, Protocol: clusterv1.ProtocolTCP, Mode: clusterv1.ModeHTTP}}
	h.create(shop)
	h.waitFor(shop, "Accepted=False/NotSupported", "AddressGranted=False/Pending", "Ready=False/NotSupported")
}

// classless: an operator's LoadBalancer that says almost nothing gets class, finalizer and address written into it.
func classless(h *hub) {
	h.manager(app.LeaderElection{})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{"pool": h.name}}})
	l := h.newLoadBalancer("web", 80)
	l.Annotations, l.Finalizers, l.Spec.ClassName = nil, nil, ""
	h.create(l)
	h.waitFor(l, "Accepted=False/NoClass", "Ready=False/NoClass")

	pool := h.newPool("192.0.2.24/30")
	pool.Spec.Requestable = false
	class := h.newClass()
	class.Annotations = map[string]string{v1alpha1.AnnotationDefaultClass: "true"}
	h.create(pool, class)
	h.waitFor(l, "Accepted=True", "AddressGranted=False/NamespaceNotAdmitted", "Ready=False/NamespaceNotAdmitted")
	opened := &v1alpha1.PoolUse{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": h.name}}}
	h.change(pool, func(client.Object) { pool.Spec.Use = opened })
	h.waitFor(l, "AddressGranted=True")
	if l.Spec.ClassName != class.Name || len(l.Finalizers) != 1 || len(l.Spec.Addresses) != 1 || l.Spec.Addresses[0] != addressOf(l) {
		h.t.Errorf("class %q, finalizers %v, addresses %v", l.Spec.ClassName, l.Finalizers, l.Spec.Addresses)
	}
	p := h.proxy("1")
	p.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True")
	h.delete(class) // no other scenario shall find a default

	unknown := h.newLoadBalancer("other", 80)
	unknown.Spec.ClassName = "nonesuch"
	h.create(unknown)
	h.waitFor(unknown, "Accepted=False/ClassNotFound", "Ready=False/ClassNotFound")
}

// suspended: nothing new is granted, what is held is kept.
func suspended(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.32/30")
	p := h.proxy("1")
	p.catchUp()
	l := h.loadBalancer("web", 80)
	h.waitFor(l, "AddressGranted=True")
	p.catchUp()
	h.waitFor(l, "Programmed=True")
	h.change(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Suspend = true })
	h.waitFor(l, "Accepted=False/Suspended", "AddressGranted=True", "Programmed=False", "Ready=False/Suspended")
	h.change(&v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Suspend = false })
	p.catchUp()
	h.waitFor(l, "Programmed=True", "Ready=True")
}

// retold: an event about a LoadBalancer that no agent made is counted when it comes again.
func retold(h *hub) {
	h.manager(app.LeaderElection{})
	h.stage("192.0.2.144/30")
	h.proxy("1").run()
	l := h.newLoadBalancer("web", 80)
	l.Annotations = nil
	h.create(l)
	tenant := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	for _, suspend := range []bool{false, true, false} {
		h.change(tenant, func(o client.Object) { o.(*v1alpha1.Tenant).Spec.Suspend = suspend })
		want := "Ready=True"
		if suspend {
			want = "Ready=False/Suspended"
		}
		h.waitFor(l, want)
	}
	h.eventually("one event that came twice", func(ctx ctx) error {
		list := &eventsv1.EventList{}
		if err := h.api.List(ctx, list, client.InNamespace(h.name)); err != nil {
			return err
		}
		var got []string
		for _, e := range list.Items {
			n := int32(1)
			if e.Series != nil {
				n = e.Series.Count
			}
			got = append(got, fmt.Sprintf("%s about %s × %d", e.Reason, e.Regarding.Name, n))
		}
		if !slices.Contains(got, "Ready about web × 2") {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
}
