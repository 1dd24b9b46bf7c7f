package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newServiceClass is a class of Services of the hub, which nobody but the scenario serves.
func (h *hub) newServiceClass(kind string) *v1alpha1.LoadBalancerClass {
	s := &v1alpha1.ClassService{Type: kind, Annotations: map[string]string{"example.com/scheme": "internal"}, Labels: map[string]string{"tier": "gold"}}
	if kind == "LoadBalancer" {
		s.LoadBalancerClass = "example.com/theirs"
	}
	return &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: v1alpha1.LoadBalancerClassSpec{Service: s}}
}

func (h *hub) service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: name}}
}

// gives is the hub's implementation of Services: it writes what it gave.
func (h *hub) gives(s *corev1.Service, ingress ...corev1.LoadBalancerIngress) {
	h.t.Helper()
	wait(h, s, "there", func(s *corev1.Service) error {
		s.Status.LoadBalancer.Ingress = ingress
		return h.api.Status().Update(h.t.Context(), s)
	})
}

// endpoints waits until a Service's slices say this: an endpoint each, sorted, as address and what it is.
func (h *hub) endpoints(service string, want ...string) {
	h.t.Helper()
	h.eventually("endpoints of "+service, func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := h.api.List(ctx, list, client.InNamespace(h.name), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return err
		}
		var got []string
		for _, s := range list.Items {
			if s.Labels[discoveryv1.LabelManagedBy] != "fairlead" {
				return fmt.Errorf("managed by %q", s.Labels[discoveryv1.LabelManagedBy])
			}
			for _, e := range s.Endpoints {
				got = append(got, e.Addresses[0]+states(e.Conditions))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

func states(c discoveryv1.EndpointConditions) string {
	out := ""
	for _, x := range []struct {
		is   *bool
		name string
	}{{c.Ready, " ready"}, {c.Serving, " serving"}, {c.Terminating, " terminating"}} {
		if *x.is {
			out += x.name
		}
	}
	return out
}

// byService: a class with spec.service makes a Service of the hub without selector, and slices; the address comes from whoever
// serves Services there, and the LoadBalancer goes once the Service is gone.
func byService(h *hub) {
	stop := h.manager(app.LeaderElection{})
	h.create(h.newServiceClass("LoadBalancer"))
	h.tenant()
	group := h.newTargetGroup("10.0.0.1", "10.0.0.2", "127.0.0.1", "192.0.2.1")
	h.create(group)
	wait(h, &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, "Accepted", func(c *v1alpha1.LoadBalancerClass) error {
		return condition(c.Status.Conditions, "Accepted=True")
	})
	l := h.newLoadBalancer("web", 80)
	l.Spec.Ports = append(l.Spec.Ports, clusterv1.Port{Name: "dns", Port: 53, Protocol: clusterv1.ProtocolUDP, TargetPort: 30053})
	l.Spec.SourceRanges = []string{"198.51.100.0/24"}
	l.Labels = map[string]string{"tier": "mine", "team": "mine"}
	l.Annotations["example.com/scheme"], l.Annotations["example.com/bandwidth"] = "internet-facing", "all"
	h.create(l)
	h.waitFor(l, "Accepted=True", "AddressGranted=False/WaitingForService", "Programmed=False/Pending", "Ready=False/WaitingForService")
	s := h.service("web")
	wait(h, s, "as its class has it", func(s *corev1.Service) error {
		if s.Spec.Selector != nil || *s.Spec.LoadBalancerClass != "example.com/theirs" || s.Annotations["example.com/scheme"] != "internal" || s.Labels["tier"] != "gold" ||
			fmt.Sprint(s.Spec.LoadBalancerSourceRanges) != "[198.51.100.0/24]" || len(s.Spec.Ports) != 2 || s.Spec.Ports[1].Name != "dns" {
			return fmt.Errorf("%+v %+v", s.ObjectMeta, s.Spec)
		}
		return nil
	})
	if s.Annotations["example.com/bandwidth"] != "" || s.Labels["team"] != "" {
		h.t.Errorf("the tenant has it made with %v %v", s.Labels, s.Annotations)
	}
	h.endpoints("web", "10.0.0.1 ready serving", "10.0.0.2 ready serving")

	refusal := "example.com/NoSuchPort"
	mode := corev1.LoadBalancerIPModeVIP
	h.gives(s, corev1.LoadBalancerIngress{IP: "203.0.113.7", IPMode: &mode, Ports: []corev1.PortStatus{{Port: 53, Protocol: "UDP", Error: &refusal}}}, corev1.LoadBalancerIngress{Hostname: "web.lb.example.com"})
	h.waitFor(l, "AddressGranted=True", "Programmed=True", "Ready=True", "Degraded=True/PartlyServed")
	if got := fmt.Sprint(l.Status.Addresses); got != "[{IP 203.0.113.7 IPv4 } {Hostname web.lb.example.com  }]" || l.Status.Ports[1].Error != refusal && l.Status.Ports[0].Error != refusal {
		h.t.Errorf("%s %+v", got, l.Status.Ports)
	}
	h.gives(s, corev1.LoadBalancerIngress{IP: "203.0.113.7"})
	h.waitFor(l, "Ready=True", "Degraded=True/TargetNotAllowed")

	// Members' states: the node's readiness, draining, all unready, all draining.
	h.change(group, func(o client.Object) {
		g := o.(*v1alpha1.TargetGroup)
		no := false
		g.Spec.Targets = g.Spec.Targets[:2]
		g.Spec.Targets[0].Ready = &no
	})
	h.endpoints("web", "10.0.0.1", "10.0.0.2 ready serving")
	h.waitFor(l, "Degraded=False")
	h.change(group, func(o client.Object) { o.(*v1alpha1.TargetGroup).Spec.Targets[1].State = v1alpha1.TargetDraining })
	h.endpoints("web", "10.0.0.1 ready serving", "10.0.0.2 serving terminating")
	h.change(group, func(o client.Object) { o.SetAnnotations(map[string]string{clusterv1.DisabledAnnotation: ""}) })
	h.endpoints("web", "10.0.0.1 terminating", "10.0.0.2 serving terminating")
	h.waitFor(l, "Degraded=True/NoActiveTargets", "Programmed=True")
	h.change(group, func(o client.Object) {
		o.SetAnnotations(nil)
		o.(*v1alpha1.TargetGroup).Spec.Targets[1].State = ""
		o.(*v1alpha1.TargetGroup).Spec.Targets[0].Ready = nil
	})

	h.serviceMended(s, l)

	// Over a restart nothing is written anew.
	stop()
	writes := h.writes()
	h.manager(app.LeaderElection{})
	h.change(l, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.Ports = o.(*clusterv1.LoadBalancer).Spec.Ports[:1]
	})
	h.waitFor(l, "Programmed=True")
	for _, w := range writes() {
		if w.Namespace == h.name && w.Verb == "create" && (w.Resource == "services" || w.Resource == "endpointslices") {
			h.t.Errorf("the next manager made %s %s", w.Resource, w.Name)
		}
	}

	// Deleted: the LoadBalancer stays until whoever holds the Service lets it go.
	h.change(s, func(o client.Object) {
		o.SetFinalizers([]string{"service.kubernetes.io/load-balancer-cleanup"})
	})
	h.delete(l)
	wait(h, l, "waiting for its Service", func(l *clusterv1.LoadBalancer) error { return condition(l.Status.Conditions, "Ready=False/Deleting") })
	wait(h, s, "deleted", func(s *corev1.Service) error {
		if s.DeletionTimestamp == nil {
			return errors.New("not yet")
		}
		return nil
	})
	h.endpoints("web", "10.0.0.1 ready serving", "10.0.0.2 ready serving")
	h.change(s, func(o client.Object) { o.SetFinalizers(nil) })
	h.gone(l)
	h.endpoints("web")
}

// serviceMended: what others change of a Service is put back, but for what is theirs; one that is deleted is made anew.
func (h *hub) serviceMended(s *corev1.Service, l *clusterv1.LoadBalancer) {
	h.t.Helper()
	h.endpoints("web", "10.0.0.1 ready serving", "10.0.0.2 ready serving")
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: h.name}}
	port := int32(0)
	h.change(s, func(o client.Object) {
		s.Spec.Selector = map[string]string{"app": "theirs"}
		s.Annotations["example.com/theirs"] = "kept"
		delete(s.Labels, v1alpha1.LabelFor)
		port = s.Spec.Ports[0].NodePort
	})
	right := func(s *corev1.Service) error {
		if s.Spec.Selector != nil || s.Annotations["example.com/theirs"] != "kept" || s.Labels[v1alpha1.LabelFor] != "web" || s.Spec.Ports[0].NodePort != port {
			return fmt.Errorf("%+v %+v", s.ObjectMeta, s.Spec)
		}
		return nil
	}
	wait(h, s, "mended", right)
	h.change(class, func(o client.Object) {
		o.(*v1alpha1.LoadBalancerClass).Spec.Service.Annotations = map[string]string{"example.com/other": "x"}
	})
	wait(h, s, "of the class as it is", func(s *corev1.Service) error {
		if _, old := s.Annotations["example.com/scheme"]; old || s.Annotations["example.com/other"] != "x" {
			return fmt.Errorf("%v", s.Annotations)
		}
		return right(s)
	})
	uid := s.UID
	h.delete(s)
	h.waitFor(l, "AddressGranted=False/WaitingForService", "Ready=False/WaitingForService")
	wait(h, s, "made anew", func(s *corev1.Service) error {
		if s.UID == uid {
			return errors.New("not yet")
		}
		return nil
	})
	h.endpoints("web", "10.0.0.1 ready serving", "10.0.0.2 ready serving")
	h.gives(s, corev1.LoadBalancerIngress{IP: "203.0.113.8"})
	h.waitFor(l, "Programmed=True", "Ready=True", "Degraded=False")
}
