package providers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/examples/foo-provider/api"
	"fairlead.dev/fairlead/examples/foo-provider/balancer"
	"fairlead.dev/fairlead/internal/testkit"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fooClass is a class that makes FooLoadBalancers from a template of its name.
func fooClass(name string) *v1alpha1.LoadBalancerClass {
	return &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.LoadBalancerClassSpec{
		InfrastructureTemplate: &clusterv1.ObjectReference{APIGroup: api.GroupVersion.Group, Kind: "FooLoadBalancerTemplate", Name: name},
	}}
}

func fooTemplate(name string) *api.FooLoadBalancerTemplate {
	o := &api.FooLoadBalancerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.SystemNamespace, Name: name}}
	o.Spec.Template.Metadata.Labels = map[string]string{"tier": "small"}
	o.Spec.Template.Spec.MaxConnections = 100
	return o
}

// balancer of a namespace, which sends to the TargetGroup of its name, and says the rest by spec.
func lbOf(namespace, name string, spec func(*clusterv1.LoadBalancerSpec)) *clusterv1.LoadBalancer {
	l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: clusterv1.LoadBalancerSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"story": namespace}},
		Ports:    []clusterv1.Port{{Port: 7443, TargetPort: targetPort, Protocol: clusterv1.ProtocolTCP}},
	}}
	spec(&l.Spec)
	return l
}

func refersTo(kind, name string) func(*clusterv1.LoadBalancerSpec) {
	return func(s *clusterv1.LoadBalancerSpec) {
		s.InfrastructureRef = &clusterv1.ObjectReference{APIGroup: api.GroupVersion.Group, Kind: kind, Name: name}
	}
}

func fooLB(namespace, name string) *api.FooLoadBalancer {
	return &api.FooLoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// prod is a Cluster of that name.
func prod(namespace string) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"controlPlaneRef": map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "X", "name": "x"},
	}}}
	c.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	c.SetKind("Cluster")
	c.SetNamespace(namespace)
	c.SetName("prod")
	return c
}

// says waits for conditions of a LoadBalancer, each as Type=Status/Reason.
func says(t *testing.T, h *hub, l *clusterv1.LoadBalancer, wants ...string) {
	t.Helper()
	wait(t, h, l, strings.Join(wants, ", "), func(l *clusterv1.LoadBalancer) error {
		var wrong []error
		for _, want := range wants {
			kind, rest, _ := strings.Cut(want, "=")
			status, reason, _ := strings.Cut(rest, "/")
			wrong = append(wrong, is(l.Status.Conditions, kind, metav1.ConditionStatus(status), reason))
		}
		return errors.Join(wrong...)
	})
}

func message(l *clusterv1.LoadBalancer, kind string) string {
	if c := meta.FindStatusCondition(l.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

// unserved: each thing that can be missing or wrong has its reason, and what comes late is seen.
func unserved(t *testing.T, h *hub) {
	const name = "unserved"
	h.namespace(t, name)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "other"}}
	h.create(t, other)
	owned := fooLB(name, "owned")
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	taken := fooLB(name, "taken")
	h.create(t, fooClass(name), owned, taken)
	for l, want := range map[string]struct {
		spec   func(*clusterv1.LoadBalancerSpec)
		reason string
	}{
		"kind":     {refersTo("BarLoadBalancer", "x"), "ProviderNotInstalled"},
		"rights":   {refersTo("FKSCluster", "x"), "ProviderForbidden"},
		"object":   {refersTo("FooLoadBalancer", "missing"), "ProviderObjectNotFound"},
		"owner":    {refersTo("FooLoadBalancer", "owned"), "ProviderObjectOwned"},
		"template": {func(s *clusterv1.LoadBalancerSpec) { s.ClassName = name }, "TemplateNotFound"},
		"taken":    {func(s *clusterv1.LoadBalancerSpec) { s.ClassName = name }, "ProviderObjectOwned"},
		"group": {func(s *clusterv1.LoadBalancerSpec) {
			s.InfrastructureRef = &clusterv1.ObjectReference{Kind: "Secret", Name: "x"}
		}, "Invalid"},
	} {
		o := lbOf(name, l, want.spec)
		h.create(t, o)
		says(t, h, o, "Ready=False/"+want.reason)
		t.Logf("%s: %s", l, message(o, "Ready"))
	}
	h.create(t, fooLB(name, "missing"), fooTemplate(name))
	for _, l := range []string{"object", "template"} {
		says(t, h, lbOf(name, l, func(*clusterv1.LoadBalancerSpec) {}), "Ready=True/Ready", "LBExists=True/AsExpected", "Degraded=True/NoTargets")
	}
	// What a Cluster says goes before what a provider's object says, and isn't overtaken by it.
	cluster := prod(name)
	cluster.Object["spec"].(map[string]any)["controlPlaneEndpoint"] = map[string]any{"host": "api.example.com", "port": int64(6443)}
	mine := fooLB(name, "mine")
	mine.Spec.Endpoint = &clusterv1.Endpoint{Host: h.host(195).String(), Port: 7443}
	l := lbOf(name, "clusters", refersTo("FooLoadBalancer", "mine"))
	l.Spec.ClusterName = "prod"
	h.create(t, cluster, mine, l)
	says(t, h, l, "Ready=True/Ready", "LBExists=True/AsExpected")
	if l.Spec.Endpoint != nil {
		t.Errorf("its Cluster has another endpoint, and it got %+v of its object", l.Spec.Endpoint)
	}
	o := fooLB(name, "taken")
	wait(t, h, o, "left alone", func(o *api.FooLoadBalancer) error {
		if len(o.OwnerReferences) > 0 {
			return fmt.Errorf("it has the owners %v", o.OwnerReferences)
		}
		return nil
	})
}

// byClass tells the life of a LoadBalancer whose class makes a FooLoadBalancer.
func byClass(t *testing.T, h *hub, control string, controller *testkit.Process) {
	const name = "classy"
	h.namespace(t, name)
	f := &front{hub: h, t: t, control: control}
	machine := h.host(247)
	stop := serve(t, machine)
	defer stop.Close()
	group := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name, Labels: map[string]string{"story": name}}}
	group.Spec.Targets = []v1alpha1.Target{{Name: "m", UID: "m", Addresses: []string{machine.String()}}}
	if err := controller.Kill(); err != nil {
		t.Fatal(err)
	}
	l := lbOf(name, name, func(s *clusterv1.LoadBalancerSpec) { s.ClassName = name })
	h.create(t, fooTemplate(name), fooClass(name), group, l)
	o := fooLB(name, name)
	wait(t, h, o, "made from the template", func(o *api.FooLoadBalancer) error {
		if o.Spec.MaxConnections != 100 || o.Labels["tier"] != "small" || !metav1.IsControlledBy(o, l) {
			return fmt.Errorf("it has %+v, %v, %v", o.Spec, o.Labels, o.OwnerReferences)
		}
		return nil
	})
	says(t, h, l, "Accepted=True/Accepted", "AddressGranted=False/WaitingForProvider", "Ready=False/WaitingForProvider")
	if m := message(l, "Ready"); !strings.Contains(m, "no word of its provider since 20") {
		t.Errorf("nobody answers, and it says %q", m)
	}
	kill(t, h.manager)
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	says(t, h, l, "Ready=True/Ready", "Programmed=True/Programmed", "AddressGranted=True/AddressGranted", "LBExists=True/AsExpected", "LBMatchesConfig=True/AsExpected",
		"DNSResolvable=True/AsExpected", "Degraded=False/AsExpected")
	wait(t, h, o, "have an endpoint", func(o *api.FooLoadBalancer) error {
		if o.Spec.Endpoint == nil || o.Spec.Endpoint.Host == "" {
			return errors.New("it has none")
		}
		return nil
	})
	if e := l.Spec.Endpoint; e == nil || *e != *o.Spec.Endpoint || len(l.Status.Addresses) != 1 || l.Status.Addresses[0].Value != e.Host {
		t.Errorf("the provider's endpoint is %+v; the LoadBalancer says %+v and %+v", o.Spec.Endpoint, l.Spec.Endpoint, l.Status.Addresses)
	}
	f.endpoint, f.foo = *o.Spec.Endpoint, o
	for _, one := range []func(){func() {}, func() { kill(t, h.manager) }, func() { kill(t, controller) }} {
		one()
		wait(t, h, o, "have its member", func(o *api.FooLoadBalancer) error {
			c, _, err := hold(f.endpoint)
			if err == nil {
				err = errors.Join(echo(c), c.Close())
			}
			return err
		})
	}
	f.set(balancer.Settings{ApplyDelay: "0s", Faults: map[string]balancer.Fault{"Delete": balancer.Fails}})
	if err := h.api.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	wait(t, h, o, "being deleted", func(o *api.FooLoadBalancer) error {
		if o.DeletionTimestamp == nil {
			return errors.New("it isn't")
		}
		return nil
	})
	kill(t, h.manager)
	kill(t, controller)
	says(t, h, l, "Ready=False/Deleting")
	f.set(balancer.Settings{ApplyDelay: "0s"})
	h.gone(t, l)
	h.gone(t, o)
	// A change costs a handful of writes: what waits doesn't go round and round.
	all, _, err := h.control.Writes(0)
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for _, w := range all {
		if w.Namespace == name && strings.HasSuffix(w.User, ":fairlead-manager") {
			writes++
		}
	}
	if writes > 40 {
		t.Errorf("the manager wrote %d times", writes)
	}
}

// byReference tells the life of a LoadBalancer that refers to a FooLoadBalancer.
func byReference(t *testing.T, h *hub) {
	const name = "referred"
	h.namespace(t, name)
	at := &clusterv1.Endpoint{Host: h.host(196).String(), Port: 7443}
	l := lbOf(name, name, func(s *clusterv1.LoadBalancerSpec) {
		refersTo("FooLoadBalancer", "mine")(s)
		s.Endpoint = at
	})
	first, second := fooLB(name, "mine"), fooLB(name, "next")
	h.create(t, &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name, Labels: map[string]string{"story": name}}}, first, second, l)
	says(t, h, l, "Ready=True/Ready", "LBExists=True/AsExpected")
	wait(t, h, first, "told, and owned", func(o *api.FooLoadBalancer) error {
		if _, moves := o.Labels["clusterctl.cluster.x-k8s.io/move"]; !moves || o.Spec.Endpoint == nil || *o.Spec.Endpoint != *at || !metav1.IsControlledBy(o, l) {
			return fmt.Errorf("it has %+v, %v, %v", o.Spec, o.Labels, o.OwnerReferences)
		}
		return nil
	})
	change(t, h, l, func(l *clusterv1.LoadBalancer) { l.Spec.Endpoint.Port = 8443 })
	says(t, h, l, "Programmed=False/EndpointDiffers", "Ready=False/EndpointDiffers", "AddressGranted=True/AddressGranted", "LBMatchesConfig=False/EndpointDiffers")
	t.Log(message(l, "Ready"))
	change(t, h, l, func(l *clusterv1.LoadBalancer) {
		l.Spec.Endpoint, l.Spec.InfrastructureRef.Name = nil, "next"
	})
	wait(t, h, second, "owned in the first's place", func(o *api.FooLoadBalancer) error {
		if !metav1.IsControlledBy(o, l) || o.Spec.ID == "" {
			return fmt.Errorf("it has %+v, %v", o.Spec, o.OwnerReferences)
		}
		return nil
	})
	wait(t, h, first, "a person's again, and there outside", func(o *api.FooLoadBalancer) error {
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil || o.Spec.ID == "" {
			return fmt.Errorf("it has %+v, %v", o.Spec, o.OwnerReferences)
		}
		return nil
	})
	wait(t, h, l, "served by the second", func(l *clusterv1.LoadBalancer) error {
		if l.Spec.Endpoint == nil || *l.Spec.Endpoint != *second.Spec.Endpoint {
			return fmt.Errorf("its endpoint is %+v", l.Spec.Endpoint)
		}
		return is(l.Status.Conditions, "Ready", metav1.ConditionTrue, "Ready")
	})
	change(t, h, l, func(l *clusterv1.LoadBalancer) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, "cluster.x-k8s.io/paused", "")
	})
	if err := h.api.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	says(t, h, l, "Ready=False/Deleting")
	if m := message(l, "Ready"); !strings.Contains(m, "paused") {
		t.Errorf("it is paused, and says %q", m)
	}
	wait(t, h, second, "left alone by the pause", func(o *api.FooLoadBalancer) error {
		if o.DeletionTimestamp != nil {
			return errors.New("it is being deleted")
		}
		return nil
	})
	change(t, h, l, func(l *clusterv1.LoadBalancer) { delete(l.Annotations, "cluster.x-k8s.io/paused") })
	h.gone(t, l)
	h.gone(t, second)
	if err := h.api.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	h.gone(t, first)
}
