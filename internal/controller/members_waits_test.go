package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	controlplanev1 "fairlead.dev/fairlead/api/controlplane/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waits has the LoadBalancer wait for that long, and do that then.
func (f *fleetOf) waits(wait time.Duration, then clusterv1.OnMaxWait) {
	f.t.Helper()
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.MachineHooks = &clusterv1.MachineHooks{MaxWait: &metav1.Duration{Duration: wait}, OnMaxWait: then}
	})
}

// blockedMachine: with Block a Machine is held though maxWait has passed, until the proxy has stopped.
func blockedMachine(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	f.waits(0, clusterv1.OnMaxWaitBlock)
	f.followed("True/AsExpected") // in view of that
	f.held(m)
	f.proxy.busy = nil
	f.unhooks(m)
	f.collect(m)
	f.states("a2=active")
}

// givenUpMachine: Cluster API's health check has given two Machines up, as it does for a dead kubelet beside an API server that is well. The one
// that the proxy finds well is held until it has stopped. The one that fails its check is let go at once, whoever is connected.
func givenUpMachine(f *fleetOf) {
	f.waits(time.Hour, clusterv1.OnMaxWaitBlock)
	well, ill := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.machine("a3", "prod")
	f.states("a1=active", "a2=active", "a3=active")
	f.condition(well, "HealthCheckSucceeded", "False")
	f.proxy.busy = map[string]int64{"a1": 1, "a2": 1}
	f.delete(well)
	f.held(well)
	f.fails("a2")
	f.states("a1=removing", "a2=unhealthy", "a3=active")
	f.condition(ill, "HealthCheckSucceeded", "False")
	f.delete(ill)
	f.unhooks(ill)
	f.held(well)
	f.proxy.busy, f.proxy.sick = nil, nil
	f.unhooks(well)
	f.collect(well)
	f.collect(ill)
	f.states("a3=active")
}

// fails has the proxy find a target unhealthy.
func (f *fleetOf) fails(name string) {
	f.t.Helper()
	g := &v1alpha1.TargetGroup{}
	if err := f.api.Get(f.t.Context(), client.ObjectKey{Namespace: f.name, Name: "api-members-0"}, g); err != nil {
		f.t.Fatal(err)
	}
	for _, t := range g.Spec.Targets {
		if t.Name == name {
			f.proxy.sick = append(f.proxy.sick, v1alpha1.ReportedMember{
				TargetGroup: g.Name, GroupUID: string(g.UID), Target: t.Name, TargetUID: t.UID, Address: t.ServedAddress(),
				Check: "HTTPS:6443/readyz", State: v1alpha1.ReportedUnhealthy, Message: "Refused.",
			})
		}
	}
}

// holds has the LoadBalancer hold Machines by a hook of that type.
func (f *fleetOf) holds(by clusterv1.HookType) {
	f.t.Helper()
	f.change(f.lb, func(o client.Object) {
		o.(*clusterv1.LoadBalancer).Spec.MachineHooks = &clusterv1.MachineHooks{Type: by}
	})
}

// hookTypes: a Machine is held by the hook that the LoadBalancer says. Where hooks are switched off none is, though it be drained.
func hookTypes(f *fleetOf) {
	one, two := f.machine("a1", "prod"), f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	// Cluster API's names.
	const drain, terminate = "pre-drain.delete.hook.machine.cluster.x-k8s.io", "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
	hooks := func(m *unstructured.Unstructured, want ...string) {
		f.t.Helper()
		f.until(fmt.Sprintf("Machine %s to have the hooks %v", m.GetName(), want), func(ctx ctx) error {
			err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m)
			var got []string
			for key, value := range m.GetAnnotations() {
				if value == member.HookValue {
					when, _, _ := strings.Cut(key, "/")
					got = append(got, when)
				}
			}
			if err == nil && !slices.Equal(got, want) {
				err = fmt.Errorf("it has %v", got)
			}
			return err
		})
	}
	hooks(one, drain)
	f.holds(clusterv1.HookPreTerminate)
	hooks(one, terminate)
	hooks(two, terminate)
	f.proxy.busy = map[string]int64{"a1": 1, "a2": 1}
	f.delete(one)
	f.held(one)
	hooks(one, terminate)
	f.holds(clusterv1.HookNone)
	hooks(one)
	hooks(two)
	f.places("a1=Draining", "a2=Serving")
	f.machine("a3", "prod")
	f.delete(two)
	f.states("a1=removing", "a2=removing", "a3=active")
	hooks(two)
	f.collect(one)
	f.collect(two)
	f.places("a1=Draining", "a2=Draining", "a3=Serving")
	f.proxy.busy = nil
	f.places("a3=Serving")
}

// leavingControlPlane: one whose control plane object alone is being deleted waits for nobody either.
func leavingControlPlane(f *fleetOf) {
	c := f.newCluster("prod", nil)
	f.change(c, func(o client.Object) {
		if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, "ExternalControlPlane", "spec", "controlPlaneRef", "kind"); err != nil {
			f.t.Error(err)
		}
	})
	plane := &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "prod", Finalizers: []string{"example.com/held"}}}
	f.create(plane)
	m := f.machine("a1", "prod")
	f.states("a1=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	f.delete(plane)
	f.unhooks(m)
	f.places("a1=Draining")
	f.collect(m)
	f.places()
	f.change(plane, func(o client.Object) { o.SetFinalizers(nil) })
}

// lastMachine: the last active Machine serves on while another one is on its way, for half of maxWait.
func lastMachine(f *fleetOf) {
	f.waits(time.Hour, clusterv1.OnMaxWaitBlock)
	m := f.machine("a1", "prod")
	f.states("a1=active")
	comes := f.newMachine("a2", "prod")
	f.create(comes)
	f.states("a1=active", "a2=waiting")
	f.delete(m)
	f.states("a1=removing", "a2=waiting")
	f.reason("a1", member.ReasonLastActive)
	f.places("a1=Serving")
	f.waits(time.Second, clusterv1.OnMaxWaitBlock)
	f.places("a1=Draining")
	f.unhooks(m)
	f.collect(m)
	f.addressed(comes)
	f.states("a2=active")
}

// movingMachine: a Machine that a move deletes here is left as it is, hook and target too.
func movingMachine(f *fleetOf) {
	m := f.machine("a1", "prod")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.change(m, func(o client.Object) {
		o.SetAnnotations(map[string]string{clusterv1.MoveAnnotation: ""}) // in place of all, as clusterctl does it
	})
	f.delete(m)
	f.machine("a3", "prod")
	f.until("a3 to be followed", func(ctx ctx) error {
		have, err := f.placed(ctx)
		if err == nil && (have["a1"].State != v1alpha1.TargetServing || have["a3"].State != v1alpha1.TargetServing) {
			err = fmt.Errorf("there are %v", have)
		}
		return err
	})
	if hooked, err := f.hooked(f.t.Context(), m); err != nil || hooked || m.GetAnnotations()[member.StatusAnnotation] != "" {
		f.t.Errorf("it was written to: %v, %v", m.GetAnnotations(), err)
	}
}

// reason waits until a target is as it is for that reason.
func (f *fleetOf) reason(name, want string) {
	f.t.Helper()
	f.until(name+" to be so for "+want, func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
			return err
		}
		for _, t := range f.lb.Status.Targets {
			if t.Name == name && t.Reason == want {
				return nil
			}
		}
		return fmt.Errorf("%+v", f.lb.Status.Targets)
	})
}
