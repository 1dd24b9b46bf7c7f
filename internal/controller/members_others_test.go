package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers has whoever manages the load balancer answer to what is wanted, as he may: if the Machine is still as he read it.
func (f *fleetOf) answers(m *unstructured.Unstructured, wanted v1alpha1.TargetState, answer string) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%s of Machine %s to be wanted, and answered", wanted, m.GetName()), func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if got := member.WantedIn(m.GetAnnotations(), "api"); got != wanted {
			return fmt.Errorf("%q is wanted", got)
		}
		annotations := m.GetAnnotations()
		annotations[member.AnswerPrefix+"api"] = answer
		m.SetAnnotations(annotations)
		return f.api.Update(ctx, m)
	})
}

// asked waits until something else is wanted of a Machine's load balancer, and no answer to what was wanted before is left.
func (f *fleetOf) asked(m *unstructured.Unstructured, wanted v1alpha1.TargetState) {
	f.t.Helper()
	f.until(fmt.Sprintf("%q of Machine %s to be wanted", wanted, m.GetName()), func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if a := m.GetAnnotations(); member.WantedIn(a, "api") != wanted || a[member.AnswerPrefix+"api"] != "" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
}

// machinesOfOthers: somebody else manages the load balancer. Machines have hooks and states by what he answers; an answer to what was
// wanted before is none, and maxWait bounds what he doesn't answer.
func machinesOfOthers(h *hub, restart func(meanwhile func())) {
	hooks := v1alpha1.LoadBalancerClassSpec{HooksOnly: &v1alpha1.ClassHooksOnly{InfrastructureRef: clusterv1.ObjectReference{APIGroup: "example.com", Kind: "F5Pool", Name: "by-hand"}}}
	class := &v1alpha1.LoadBalancerClass{ObjectMeta: metav1.ObjectMeta{Name: h.name}, Spec: hooks}
	f := h.machinesOf(class, func(l *clusterv1.LoadBalancer) {
		l.Spec.Endpoint = &clusterv1.Endpoint{Host: "192.0.2.200", Port: 6443}
	})
	one, two := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=adding", "a2=adding")
	f.says("Accepted=True", "AddressGranted=True/ManagedElsewhere", "Programmed=True/ManagedElsewhere", "Ready=True", "Degraded=True/NoActiveTargets", "TargetsFollowed=True", "EndpointPublished=True/Published")
	f.answers(one, v1alpha1.TargetServing, "Healthy")
	f.answers(two, v1alpha1.TargetServing, "Unhealthy: refused at port 6443")
	f.until("what is answered of a2 to be said", func(ctx ctx) error {
		if err := f.has(ctx, "a1=active", "a2=adding"); err != nil {
			return err
		}
		if text := f.lb.Status.Targets[1].Message; !strings.Contains(text, "whoever manages F5Pool by-hand") || !strings.Contains(text, "refused at port 6443") {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	f.answers(two, v1alpha1.TargetServing, "Healthy")
	f.states("a1=active", "a2=active")
	f.says("Degraded=False")

	// A rollout's step, over a restart.
	f.delete(one)
	f.asked(one, v1alpha1.TargetDraining)
	f.answers(one, v1alpha1.TargetDraining, "Draining: 3 connections")
	f.drains(one, "3 connections")
	restart(func() {})
	f.answers(one, v1alpha1.TargetDraining, "Draining: 2 connections")
	f.drains(one, "2 connections")
	f.answers(one, v1alpha1.TargetDraining, "Gone")
	f.unhooks(one)
	f.states("a1=removed", "a2=active")
	f.collect(one)
	f.places("a2=Serving")

	// "Gone" that was said of another Machine of that name, or of one that was disabled, is not said of it later. Nor is one that was
	// taken back, or that nobody asked for.
	third := f.machine("a1", "prod")
	f.states("a1=adding", "a2=active")
	f.answers(third, v1alpha1.TargetServing, "Healthy")
	f.states("a1=active", "a2=active")
	f.annotated(third, clusterv1.DisabledAnnotation, "")
	f.answers(third, v1alpha1.TargetDraining, "Gone")
	f.states("a1=disabled", "a2=active")
	f.annotated(third, member.AnswerPrefix+"api", "-")
	f.states("a1=disabling", "a2=active")
	f.answers(third, v1alpha1.TargetDraining, "Gone")
	f.states("a1=disabled", "a2=active")
	f.annotated(third, clusterv1.DisabledAnnotation, "-")
	f.asked(third, v1alpha1.TargetServing)
	f.answers(third, v1alpha1.TargetServing, "Gone")
	f.states("a1=adding", "a2=active")
	f.delete(third)
	f.asked(third, v1alpha1.TargetDraining)
	f.drains(third, "Gone yet")

	// He doesn't answer, or the LoadBalancer goes.
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.MachineHooks = &clusterv1.MachineHooks{MaxWait: &metav1.Duration{}}
	})
	f.unhooks(third)
	f.collect(third)
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.MachineHooks = &clusterv1.MachineHooks{MaxWait: &metav1.Duration{Duration: time.Hour}, OnMaxWait: clusterv1.OnMaxWaitBlock}
	})

	h.delete(f.lb)
	f.unhooks(two)
	f.asked(two, member.Absent)
	h.gone(f.lb)
	list := &v1alpha1.AddressList{}
	if err := h.api.List(h.t.Context(), list); err != nil || slices.ContainsFunc(list.Items, func(a v1alpha1.Address) bool {
		return slices.ContainsFunc(a.Spec.Holders, func(x v1alpha1.Holder) bool { return x.Namespace == h.name })
	}) {
		h.t.Error(errors.Join(err, errors.New("it has an address of the ledger")))
	}
}

// servedOtherwise: a class comes to be served by a Service, then by somebody else, while a Machine drains to which a proxy has connections.
// The Machine is held until the proxy has let go, whatever is said by what serves now.
func servedOtherwise(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.drainFor(time.Hour)
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	class := f.newClass()
	becomes := func(spec v1alpha1.LoadBalancerClassSpec) {
		f.change(class, func(o client.Object) { o.(*v1alpha1.LoadBalancerClass).Spec = spec })
	}
	becomes(v1alpha1.LoadBalancerClassSpec{Service: &v1alpha1.ClassService{Type: "LoadBalancer"}})
	f.drains(m, "no EndpointSlice has it ready any more")
	f.drainFor(time.Second)
	f.drains(m, "Waiting for proxies")
	becomes(v1alpha1.LoadBalancerClassSpec{HooksOnly: &v1alpha1.ClassHooksOnly{InfrastructureRef: clusterv1.ObjectReference{APIGroup: "example.com", Kind: "F5Pool", Name: "by-hand"}}})
	f.drains(m, "Waiting for whoever manages F5Pool by-hand")
	f.answers(m, v1alpha1.TargetDraining, "Gone")
	f.drains(m, "Waiting for proxies")
	f.proxy.busy = nil
	f.unhooks(m)
	f.collect(m)
	f.places("a2=Serving")
}
