package build

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
)

// Of a load balancer that somebody else manages a LoadBalancer may want that Machines are held, and nothing else; no proxy takes part.
func TestLoadBalancersOfOthers(t *testing.T) {
	type spec = clusterv1.LoadBalancerSpec
	for name, c := range map[string]struct {
		change func(*spec)
		tenant *v1alpha1.Tenant
		field  string
		effect lb.Effect
	}{
		"Machines":             {},
		"TargetGroups":         {change: func(s *spec) { s.ClusterName = "" }, field: "spec.targetKind", effect: lb.Refused},
		"Nodes":                {change: func(s *spec) { s.ClusterName, s.TargetKind = "", &clusterv1.KindReference{Kind: "Node"} }, field: "spec.targetKind", effect: lb.Refused},
		"of a Tenant":          {tenant: &v1alpha1.Tenant{}, field: "spec.targetKind", effect: lb.Refused},
		"sources":              {change: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8"} }, field: "spec.sourceRanges", effect: lb.Refused},
		"the PROXY protocol":   {change: func(s *spec) { s.ProxyProtocol = "V2" }, field: "spec.proxyProtocol", effect: lb.Refused},
		"a check":              {change: func(s *spec) { s.HealthCheck = &clusterv1.HealthCheck{Type: "TCP"} }, field: "spec.healthCheck", effect: lb.ServedWithout},
		"how long they drain":  {change: func(s *spec) { s.DrainTimeout = duration(1) }, field: "spec.drainTimeout", effect: lb.ServedWithout},
		"an address":           {change: func(s *spec) { s.Addresses = []string{"192.0.2.1"} }, field: "spec.addresses", effect: lb.ServedWithout},
		"who keeps its target": {change: func(s *spec) { s.SessionAffinity = clusterv1.SessionAffinityClientIP }, field: "spec.sessionAffinity", effect: lb.ServedWithout},
	} {
		l, class := goodLoadBalancer(), goodClass()
		class.Spec = v1alpha1.LoadBalancerClassSpec{HooksOnly: &v1alpha1.ClassHooksOnly{InfrastructureRef: clusterv1.ObjectReference{Kind: "F5Pool", Name: "x"}}}
		l.Spec = spec{ClassName: class.Name, ClusterName: "prod", Ports: l.Spec.Ports}
		if c.change != nil {
			c.change(&l.Spec)
		}
		found := c.field == ""
		for _, p := range Validate(l, class, c.tenant) {
			found = found || p.Field == c.field && p.Effect == c.effect
			if p.Field != c.field {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if !found {
			t.Errorf("%s: nothing is said of %s", name, c.field)
		}
		if ours(l, class, "edge") {
			t.Errorf("%s: a proxy takes it for its own", name)
		}
	}
	class := &v1alpha1.LoadBalancerClass{Spec: v1alpha1.LoadBalancerClassSpec{HooksOnly: &v1alpha1.ClassHooksOnly{}, AddressPools: []string{"x"}, Defaults: &v1alpha1.ClassDefaults{}}}
	if p := ValidateClass(class); len(p) != 2 || p[0].Effect != lb.ServedWithout || p[1].Effect != lb.ServedWithout {
		t.Errorf("%+v", p)
	}
}
