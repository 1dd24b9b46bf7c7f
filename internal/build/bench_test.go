package build

import (
	"fmt"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleet has n LoadBalancers in one namespace, each with an address of its own, over 50 nodes.
func fleet(n int) Objects {
	o := Objects{
		Classes: []*v1alpha1.LoadBalancerClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "edge"},
			Spec:       v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}},
		}},
		Tenants:      []*v1alpha1.Tenant{{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8"}}}},
		TargetGroups: []*v1alpha1.TargetGroup{fleetNodes(v1alpha1.TargetServing)},
	}
	for i := range n {
		o.LoadBalancers = append(o.LoadBalancers, fleetLoadBalancer(i, 31000))
		o.Addresses = append(o.Addresses, &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{Name: fleetAddress(i)},
			Spec: v1alpha1.AddressSpec{
				Address: fleetAddress(i), Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
				Holders: []v1alpha1.Holder{{Namespace: "t", Name: fleetName(i), Ports: []string{"TCP/80"}}},
			},
		})
	}
	return o
}

func fleetName(i int) string    { return fmt.Sprintf("lb-%05d", i) }
func fleetAddress(i int) string { return fmt.Sprintf("192.%d.%d.%d", 10+i>>16, i>>8&255, i&255) }

func fleetLoadBalancer(i int, targetPort int32) *clusterv1.LoadBalancer {
	return &clusterv1.LoadBalancer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: fleetName(i)},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: "edge",
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}},
			Ports:     []clusterv1.Port{{Port: 80, TargetPort: targetPort, Protocol: clusterv1.ProtocolTCP}},
		},
	}
}

// fleetNodes are 50 nodes, the first of them in the given state.
func fleetNodes(first v1alpha1.TargetState) *v1alpha1.TargetGroup {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "t", Name: "nodes-0", Labels: map[string]string{v1alpha1.LabelTargets: v1alpha1.TargetsNodes}}}
	g.Spec.HealthCheck = &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 10256, Path: "/healthz"}
	for i := range 50 {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{
			Name: fmt.Sprintf("node-%d", i), UID: fmt.Sprintf("uid-%d", i), Addresses: []string{fmt.Sprintf("10.0.0.%d", i+1)}, State: v1alpha1.TargetServing,
		})
	}
	g.Spec.Targets[0].State = first
	return g
}

// builderOf has all objects, and has built.
func builderOf(o Objects) *Builder {
	b := New(Options{ProxyPool: "edge", Check: func(*lb.Snapshot) []lb.Problem { return nil }})
	for _, x := range o.Classes {
		b.Set(x)
	}
	for _, x := range o.Tenants {
		b.Set(x)
	}
	for _, x := range o.TargetGroups {
		b.Set(x)
	}
	for _, x := range o.Addresses {
		b.Set(x)
	}
	for _, x := range o.LoadBalancers {
		b.Set(x)
	}
	b.Program()
	return b
}

// BenchmarkOneChange is what one event costs from object to Changes, with 10,000 LoadBalancers in one tenant.
func BenchmarkOneChange(b *testing.B) {
	objects := fleet(10000)
	for name, change := range map[string]func(i int) metav1.Object{
		"LoadBalancer":        func(i int) metav1.Object { return fleetLoadBalancer(5000, int32(31000+i%2)) },
		"LoadBalancer/status": func(i int) metav1.Object { return fleetLoadBalancer(5000, 31000) },
		"TargetGroup": func(i int) metav1.Object {
			return fleetNodes([]v1alpha1.TargetState{v1alpha1.TargetServing, v1alpha1.TargetDraining}[i%2])
		},
	} {
		b.Run(name, func(b *testing.B) {
			builder := builderOf(objects)
			old := builder.Program()
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				builder.Set(change(i))
				next := builder.Program()
				lb.Diff(old, next)
				old = next
			}
		})
	}
	b.Run("create and delete", func(b *testing.B) {
		builder := builderOf(objects)
		old := builder.Program()
		one := fleetLoadBalancer(5000, 31000)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%2 == 0 {
				builder.Delete(one)
			} else {
				builder.Set(one)
			}
			next := builder.Program()
			if c := lb.Diff(old, next); len(c.Frontends) != 1 || len(c.Listeners) != 1 {
				b.Fatal(c)
			}
			old = next
		}
	})
}

// BenchmarkOneChangeOfMany is one of 10,000 LoadBalancers that have a TargetGroup each.
func BenchmarkOneChangeOfMany(b *testing.B) {
	objects := fleet(10000)
	group := func(i int, state v1alpha1.TargetState) *v1alpha1.TargetGroup {
		g := fleetNodes(state)
		g.Name, g.Labels = fleetName(i), map[string]string{v1alpha1.LabelTargets: fleetName(i)}
		g.Spec.Targets = g.Spec.Targets[:3]
		return g
	}
	for i, l := range objects.LoadBalancers {
		l.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: fleetName(i)}}
		objects.TargetGroups = append(objects.TargetGroups, group(i, v1alpha1.TargetServing))
	}
	builder := builderOf(objects)
	old := builder.Program()
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		builder.Set(group(5000, []v1alpha1.TargetState{v1alpha1.TargetServing, v1alpha1.TargetDraining}[i%2]))
		next := builder.Program()
		if c := lb.Diff(old, next); len(c.Groups) != 1 {
			b.Fatal(c)
		}
		old = next
	}
}

// BenchmarkWhole builds 10,000 LoadBalancers from nothing.
func BenchmarkWhole(b *testing.B) {
	objects := fleet(10000)
	b.ReportAllocs()
	for b.Loop() {
		if p := Whole(objects, Options{ProxyPool: "edge"}); len(p.Listeners) != 10000 {
			b.Fatal(len(p.Listeners))
		}
	}
}
