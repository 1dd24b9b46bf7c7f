package build

import (
	"slices"
	"testing"
	"time"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
)

// Machines are resolved for classes with proxies or a Service of the hub, in namespaces of no Tenant; elsewhere a LoadBalancer says that they aren't.
func TestMachines(t *testing.T) {
	for name, c := range map[string]struct {
		lb     func(*clusterv1.LoadBalancerSpec)
		class  func(*v1alpha1.LoadBalancerClass) *v1alpha1.LoadBalancerClass
		tenant *v1alpha1.Tenant
		yes    bool
		fields []string
	}{
		"by the Cluster's name": {yes: true},
		"by a label": {yes: true, lb: func(s *clusterv1.LoadBalancerSpec) {
			s.ClusterName, s.Selector.MatchLabels[clusterNameLabel] = "", "prod"
		}},
		"of a Tenant":             {tenant: &v1alpha1.Tenant{}, fields: []string{"spec.addressTypes", "spec.machineHooks", "spec.targetKind"}},
		"by a Service of the hub": {yes: true, class: ofService, lb: func(s *clusterv1.LoadBalancerSpec) { s.DrainTimeout = duration(time.Hour) }},
		"by a provider":           {yes: true, class: ofTemplate("infrastructure.cluster.x-k8s.io", "FooLoadBalancerTemplate")},
		"by a reference": {yes: true, class: func(*v1alpha1.LoadBalancerClass) *v1alpha1.LoadBalancerClass { return nil }, lb: func(s *clusterv1.LoadBalancerSpec) {
			s.ClassName, s.InfrastructureRef = "", &clusterv1.ObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "FooLoadBalancer", Name: "x"}
		}},
		"TargetGroups": {lb: func(s *clusterv1.LoadBalancerSpec) { s.ClusterName = "" }, fields: []string{"spec.addressTypes", "spec.machineHooks"}},
	} {
		l, class := goodLoadBalancer(), goodClass()
		l.Spec.ClusterName, l.Spec.MachineHooks, l.Spec.AddressTypes = "prod", &clusterv1.MachineHooks{}, []string{"InternalIP"}
		if c.lb != nil {
			c.lb(&l.Spec)
		}
		if c.class != nil {
			class = c.class(class)
		}
		if kind, _ := Resolved(l, class, c.tenant); (kind == member.Machines) != c.yes {
			t.Errorf("%s: %q", name, kind)
		}
		problems := Validate(l, class, c.tenant)
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
			if p.Reason != clusterv1.ReasonNotSupported {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if !slices.Equal(fields, c.fields) {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}
