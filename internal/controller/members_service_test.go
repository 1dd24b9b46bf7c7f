package controller_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/app"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machinesOf is a scene of a class without proxies: its Cluster names the LoadBalancer.
func (h *hub) machinesOf(class *v1alpha1.LoadBalancerClass, change ...func(*clusterv1.LoadBalancer)) *fleetOf {
	h.t.Helper()
	c := h.newCluster("prod", nil)
	c.SetAnnotations(map[string]string{member.NameAnnotation: "api"})
	f := &fleetOf{hub: h, lb: &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "api"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: h.name, ClusterName: "prod", Ports: []clusterv1.Port{{Port: 6443, TargetPort: 6443, Protocol: clusterv1.ProtocolTCP}},
		},
	}}
	for _, x := range change {
		x(f.lb)
	}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, class, c, f.lb)
	return f
}

// drainFor sets how long connections of a member that leaves have.
func (f *fleetOf) drainFor(d time.Duration) {
	f.t.Helper()
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.DrainTimeout = &metav1.Duration{Duration: d}
	})
}

// drains waits until a Machine is held, and the LoadBalancer says by what. It returns the message.
func (f *fleetOf) drains(m *unstructured.Unstructured, want string) (message string) {
	f.t.Helper()
	f.until(m.GetName()+" to drain, "+want, func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Name == m.GetName() && t.Reason == member.ReasonDraining && strings.Contains(t.Message, want) {
				message = t.Message
				return nil
			}
		}
		return fmt.Errorf("%+v", f.lb.Status.Targets)
	})
	if still, err := f.hooked(f.t.Context(), m); err != nil || !still {
		f.t.Errorf("Machine %s isn't held: %v, %v", m.GetName(), m.GetAnnotations(), err)
	}
	return message
}

// annotated gives a Machine an annotation; "-" takes it off.
func (f *fleetOf) annotated(m *unstructured.Unstructured, key, value string) {
	f.t.Helper()
	f.change(m, func(o client.Object) {
		annotations := maps.Clone(o.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		if annotations[key] = value; value == "-" {
			delete(annotations, key)
		}
		o.SetAnnotations(annotations)
	})
}

// machinesByService: a Service of the hub sends to the Machines. One that leaves gets no new connection at once, and is held until no
// EndpointSlice has it ready and connections had their time; over a restart of the manager, too.
func machinesByService(h *hub, restart func(meanwhile func())) {
	hour := func(l *clusterv1.LoadBalancer) { l.Spec.DrainTimeout = &metav1.Duration{Duration: time.Hour} }
	f := h.machinesOf(h.newServiceClass("LoadBalancer"), hour)
	one, two := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.endpoints("api", "10.0.0.1 ready serving", "10.0.0.2 ready serving")
	f.gives(h.service("api"), corev1.LoadBalancerIngress{IP: "203.0.113.9"})
	f.says("Accepted=True", "Programmed=True", "Ready=True", "Degraded=False", "TargetsFollowed=True")

	f.delete(one)
	f.endpoints("api", "10.0.0.1 serving terminating", "10.0.0.2 ready serving")
	before := f.drains(one, "no EndpointSlice has it ready any more")
	seen := time.Now().Unix()
	restart(func() { // the message is in whole seconds, and a manager starts in less
		f.eventually("the next second", func(ctx) error {
			if time.Now().Unix() == seen {
				return errors.New("it is the same")
			}
			return nil
		})
	})
	f.until("the next manager to count anew", func(ctx ctx) error {
		if f.drains(one, "no EndpointSlice has it ready any more") == before {
			return errors.New("it has not")
		}
		return nil
	})
	f.drainFor(time.Second)
	f.unhooks(one)
	f.states("a1=removed", "a2=active")
	f.endpoints("api", "10.0.0.1 serving terminating", "10.0.0.2 ready serving")
	f.collect(one)
	f.places("a2=Serving")
	f.endpoints("api", "10.0.0.2 ready serving")

	// Whoever else has it ready for that Service sends to it.
	f.machine("a3", "prod")
	f.states("a2=active", "a3=active")
	yes, name, port := true, "other", int32(6443)
	theirs := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: h.name, Name: "theirs", Labels: map[string]string{discoveryv1.LabelServiceName: "api"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}}},
	}
	h.create(theirs)
	f.delete(two)
	f.drains(two, "EndpointSlice theirs has it ready")
	h.delete(theirs)
	f.annotated(two, "example.com/look", "again")
	f.unhooks(two)
	f.collect(two)

	// Disabled by a person, and the LoadBalancer's end.
	f.machine("a4", "prod")
	f.states("a3=active", "a4=active")
	three := f.newMachine("a3", "prod")
	f.annotated(three, clusterv1.DisabledAnnotation, "")
	f.states("a3=disabled", "a4=active")
	f.drainFor(time.Hour)
	f.annotated(three, clusterv1.DisabledAnnotation, "-")
	f.states("a3=active", "a4=active")
	f.delete(three)
	f.drains(three, "no EndpointSlice has it ready any more")
	h.delete(f.lb)
	f.unhooks(three)
	h.gone(f.lb)
	f.endpoints("api")
}

// machinesBefore: while one Machine is ready by its Cluster's word, no other gets connections before it is.
func machinesBefore(h *hub) {
	f := h.machinesOf(h.newServiceClass("ClusterIP"))
	one := f.machine("a1", "prod")
	f.states("a1=active") // nobody says anything: all that there are serve
	f.condition(one, "APIServerPodHealthy", "True")
	two := f.machine("a2", "prod")
	f.states("a1=active", "a2=active") // nothing is said of it
	f.condition(two, "APIServerPodHealthy", "False")
	f.states("a1=active", "a2=unhealthy")
	f.endpoints("api", "10.0.0.1 ready serving", "10.0.0.2")
	f.condition(two, "APIServerPodHealthy", "Unknown")
	f.condition(one, "APIServerPodHealthy", "Unknown")
	f.machine("a3", "prod")
	f.states("a1=active", "a2=unhealthy", "a3=active")
	f.condition(one, "APIServerPodHealthy", "False")
	f.condition(two, "APIServerPodHealthy", "True")
	f.states("a1=unhealthy", "a2=active", "a3=active")
	f.endpoints("api", "10.0.0.1", "10.0.0.2 ready serving", "10.0.0.3 ready serving")
}

// condition has Cluster API say something of a Machine.
func (f *fleetOf) condition(m *unstructured.Unstructured, kind, status string) {
	f.t.Helper()
	f.eventually("Machine "+m.GetName()+" to say "+kind, func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(m.Object, []any{map[string]any{
			"type": kind, "status": status, "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}, "status", "conditions"); err != nil {
			return err
		}
		return f.api.Status().Update(ctx, m)
	})
}

// restarting returns what stops the manager that runs, and starts another one after what happens meanwhile.
func (h *hub) restarting(stop func()) func(meanwhile func()) {
	return func(meanwhile func()) {
		stop()
		meanwhile()
		stop = h.manager(app.LeaderElection{})
	}
}
