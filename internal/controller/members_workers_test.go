package controller_test

import (
	"fmt"
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/lb"
	"fairlead.dev/fairlead/internal/member"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deploymentLabel is Cluster API's, on the Machines of a MachineDeployment.
const deploymentLabel = "cluster.x-k8s.io/deployment-name"

// workers: a LoadBalancer for what runs on a MachineDeployment's Machines, beside the control plane's. It has ports and hooks of its own, and
// publishes nothing; its Machines are none of the control plane's, and are checked by a connection.
func workers(f *fleetOf) {
	control := f.lb
	f.lb = &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "ingress"},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: f.name,
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{member.ClusterNameLabel: "prod", deploymentLabel: "md-0"}},
			Ports: []clusterv1.Port{
				{Name: "http", Port: 80, TargetPort: 30080, Protocol: clusterv1.ProtocolTCP}, {Name: "https", Port: 443, TargetPort: 30443, Protocol: clusterv1.ProtocolTCP},
			},
		},
	}
	f.create(f.lb)
	f.machine("cp1", "prod")
	worker := func(name string) *unstructured.Unstructured {
		m := f.newMachine(name, "prod")
		m.SetLabels(map[string]string{member.ClusterNameLabel: "prod", deploymentLabel: "md-0"})
		f.create(m)
		f.addressed(m)
		return m
	}
	one, two := worker("w1"), worker("w2")
	f.states("w1=active", "w2=active")
	f.says("Programmed=True", "TargetsFollowed=True")
	for _, m := range []*unstructured.Unstructured{one, two} {
		hooked, err := f.hooked(f.t.Context(), m)
		if _, labelled := m.GetLabels()[member.NameLabel]; err != nil || !hooked || labelled || member.Hooked(m.GetAnnotations(), control.Name) {
			f.t.Errorf("Machine %s has %v, %v: %v", m.GetName(), m.GetLabels(), m.GetAnnotations(), err)
		}
	}
	if c := meta.FindStatusCondition(f.lb.Status.Conditions, clusterv1.ConditionEndpointPublished); c != nil || f.lb.Spec.Role == clusterv1.RoleControlPlane {
		f.t.Errorf("it is of role %q, and says %+v", f.lb.Spec.Role, c)
	}
	f.checks("30080 TCP", "30443 TCP")

	f.proxy.busy = map[string]int64{"w1": 1}
	worker("w3")
	f.states("w1=active", "w2=active", "w3=active")
	f.delete(one)
	f.held(one)
	f.proxy.busy = nil
	f.unhooks(one)
	f.collect(one)
	f.states("w2=active", "w3=active")
	f.places("w2=Serving", "w3=Serving")
	f.lb = control
	f.states("cp1=active")
	f.checks("6443 HTTPS")
}

// checks holds that proxies ask targets at these ports in these ways, as they build it of what the hub has.
func (f *fleetOf) checks(want ...string) {
	f.t.Helper()
	ctx := f.t.Context()
	groups, addresses, classes := &v1alpha1.TargetGroupList{}, &v1alpha1.AddressList{}, &v1alpha1.LoadBalancerClassList{}
	for _, l := range []client.ObjectList{groups, addresses, classes} {
		if err := f.api.List(ctx, l); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.api.Get(ctx, client.ObjectKeyFromObject(f.lb), f.lb); err != nil {
		f.t.Fatal(err)
	}
	o := build.Objects{LoadBalancers: []*clusterv1.LoadBalancer{f.lb}}
	for i := range groups.Items {
		o.TargetGroups = append(o.TargetGroups, &groups.Items[i])
	}
	for i := range addresses.Items {
		o.Addresses = append(o.Addresses, &addresses.Items[i])
	}
	for i := range classes.Items {
		o.Classes = append(o.Classes, &classes.Items[i])
	}
	asked := map[string]bool{}
	if s := build.Whole(o, build.Options{ProxyPool: f.name}).Tenants[lb.TenantID(f.name)]; s != nil {
		for _, p := range s.Pools {
			asked[fmt.Sprintf("%d %s", p.Check.Port, p.Check.Kind)] = true
		}
	}
	if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, want) {
		f.t.Errorf("LoadBalancer %s is checked by %v, not %v", f.lb.Name, got, want)
	}
}
