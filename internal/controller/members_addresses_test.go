package controller_test

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lists has a Machine list addresses, type and address each.
func (f *fleetOf) lists(m *unstructured.Unstructured, addresses ...[2]string) {
	f.t.Helper()
	f.eventually("Machine "+m.GetName()+" to have addresses", func(ctx ctx) error {
		if err := f.api.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		var all []any
		for _, a := range addresses {
			all = append(all, map[string]any{"type": a[0], "address": a[1]})
		}
		m.Object["status"] = map[string]any{"addresses": all}
		return f.api.Status().Update(ctx, m)
	})
}

// at waits until a Machine stands in the TargetGroup in a state, with these addresses.
func (f *fleetOf) at(name string, state v1alpha1.TargetState, want ...string) {
	f.t.Helper()
	f.until(fmt.Sprintf("%s to be %s at %v", name, state, want), func(ctx ctx) error {
		have, err := f.placed(ctx)
		if err == nil && (have[name].State != state || !slices.Equal(have[name].Addresses, want)) {
			err = fmt.Errorf("it is %+v", have[name])
		}
		return err
	})
}

// machineAddresses: of a Machine's addresses those are used that the LoadBalancer's types say, one of each family, and never its own. One whose
// addresses change serves at the new ones, unless it drains.
func machineAddresses(f *fleetOf) {
	f.says("AddressGranted=True")
	own := f.lb.Status.Addresses[0].Value
	m := f.newMachine("a1", "prod")
	f.create(m)
	f.lists(m, [2]string{"Hostname", "a1"}, [2]string{"ExternalIP", "203.0.113.7"}, [2]string{"InternalDNS", "a1.example.com"}, [2]string{"InternalIP", own},
		[2]string{"InternalIP", "fe80::1"}, [2]string{"InternalIP", "10.0.1.1/24"}, [2]string{"InternalIP", "10.0.1.2"}, [2]string{"InternalIP", "[2001:db8::1]"})
	f.at("a1", v1alpha1.TargetServing, "10.0.1.1", "2001:db8::1")
	f.states("a1=active")
	types := func(types ...string) {
		f.change(f.lb, func(o client.Object) { o.(*clusterv1.LoadBalancer).Spec.AddressTypes = types })
	}
	types("ExternalIP", "InternalIP")
	f.at("a1", v1alpha1.TargetServing, "203.0.113.7", "2001:db8::1")
	types("InternalDNS")
	f.at("a1", v1alpha1.TargetServing, "a1.example.com")
	types("ExternalDNS") // it has none: what it had stays
	f.says("TargetsFollowed=True")
	f.at("a1", v1alpha1.TargetServing, "a1.example.com")
	types()
	f.at("a1", v1alpha1.TargetServing, "10.0.1.1", "2001:db8::1")

	f.lists(m, [2]string{"InternalIP", "10.0.1.9"})
	f.at("a1", v1alpha1.TargetServing, "10.0.1.9")
	f.states("a1=active")
	f.machine("a2", "prod")
	f.states("a1=active", "a2=active")
	f.proxy.busy = map[string]int64{"a1": 1}
	f.delete(m)
	f.held(m)
	f.lists(m, [2]string{"InternalIP", "10.0.1.10"})
	f.machine("a3", "prod")
	f.states("a1=removing", "a2=active", "a3=active")
	f.at("a1", v1alpha1.TargetDraining, "10.0.1.9")
	f.proxy.busy = nil
	f.unhooks(m)
	f.collect(m)

	// One that has none but the load balancer's own waits.
	f.lists(f.waiting("a4"), [2]string{"InternalIP", own})
	f.states("a2=active", "a3=active", "a4=waiting")
}

// waiting makes a Machine without an address, and waits until it is known.
func (f *fleetOf) waiting(name string) *unstructured.Unstructured {
	f.t.Helper()
	m := f.newMachine(name, "prod")
	f.create(m)
	f.states("a2=active", "a3=active", name+"=waiting")
	return m
}
