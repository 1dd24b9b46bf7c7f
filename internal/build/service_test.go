package build

import (
	"fmt"
	"slices"
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/lb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEndpointsOf: what no EndpointSlice can hold is left out with a reason, whatever a Tenant's ranges say; the others stay.
func TestEndpointsOf(t *testing.T) {
	g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nodes-0"}}
	for i, a := range [][]string{{"10.0.0.1", "fd00::1"}, {"127.0.0.1"}, {"169.254.1.1"}, {"::1"}, {"lb.cloud.example.com"}, {"192.0.2.1"}, {"0.0.0.0"}, {"10.0.0.2"}} {
		g.Spec.Targets = append(g.Spec.Targets, v1alpha1.Target{Name: fmt.Sprint("t", i), UID: fmt.Sprint("u", i), Addresses: a})
	}
	tenant := &v1alpha1.Tenant{Spec: v1alpha1.TenantSpec{TargetCIDRs: []string{"10.0.0.0/8", "fd00::/8", "127.0.0.0/8", "169.254.0.0/16", "::1/128"}}}
	e := EndpointsOf(g, tenant, Admission{})
	if got := fmt.Sprint(addressesOf(e.IPv4), addressesOf(e.IPv6)); got != "[10.0.0.1 10.0.0.2] [fd00::1]" {
		t.Errorf("got %s", got)
	}
	var reasons []string
	for _, p := range e.Problems {
		reasons = append(reasons, p.Reason)
	}
	slices.Sort(reasons)
	want := []string{clusterv1.ReasonInvalid, clusterv1.ReasonNotSupported, clusterv1.ReasonTargetNotAllowed, clusterv1.ReasonTargetNotAllowed, clusterv1.ReasonTargetNotAllowed, clusterv1.ReasonTargetNotAllowed}
	if !slices.Equal(reasons, want) {
		t.Errorf("problems %+v", e.Problems)
	}
}

func addressesOf(ms []lb.Member) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Address.String())
	}
	return out
}

// TestOthersAreNoProxys: what came to be served by a Service or a provider gives proxies nothing, though the ledger still has its grants.
func TestOthersAreNoProxys(t *testing.T) {
	for name, turn := range map[string]func(b *Builder, l *clusterv1.LoadBalancer){
		"a Service": func(b *Builder, _ *clusterv1.LoadBalancer) { b.Set(ofService(goodClass())) },
		"a template": func(b *Builder, _ *clusterv1.LoadBalancer) {
			b.Set(ofTemplate(ProviderGroup, "FooLoadBalancerTemplate")(goodClass()))
		},
		"an object": func(b *Builder, l *clusterv1.LoadBalancer) {
			l.Spec.ClassName, l.Spec.InfrastructureRef = "", &clusterv1.ObjectReference{APIGroup: ProviderGroup, Kind: "FooLoadBalancer", Name: "x"}
			b.Set(l)
		},
	} {
		l := goodLoadBalancer()
		a := &v1alpha1.Address{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.7"}, Spec: v1alpha1.AddressSpec{
			Address: "192.0.2.7", Pool: "public", ProxyPool: "edge", Phase: v1alpha1.AddressGranted,
			Holders: []v1alpha1.Holder{{Namespace: l.Namespace, Name: l.Name, Ports: []string{"TCP/80"}}},
		}}
		g := &v1alpha1.TargetGroup{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "g", Labels: map[string]string{"app": "web"}}}
		b := New(Options{ProxyPool: "edge"})
		b.Set(goodClass())
		b.Set(l)
		b.Set(g)
		b.Set(a)
		if n := len(b.Program().Listeners); n != 1 {
			t.Fatalf("%d listeners", n)
		}
		turn(b, l.DeepCopy())
		if n := len(b.Program().Listeners); n != 0 {
			t.Errorf("%s: %d listeners", name, n)
		}
	}
}
