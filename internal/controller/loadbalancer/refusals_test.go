package loadbalancer

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/build"
	"fairlead.dev/fairlead/internal/controller/ledger"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Whatever refuses a whole LoadBalancer is told with the field that is to blame, and what to do about it.
func TestARefusalNamesTheFieldAndTheFix(t *testing.T) {
	type (
		spec  = clusterv1.LoadBalancerSpec
		class = v1alpha1.LoadBalancerClass
	)
	proxies := func() *class {
		return &class{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.LoadBalancerClassSpec{Proxy: &v1alpha1.ClassProxy{Pool: "edge"}}}
	}
	services := func(change func(*v1alpha1.ClassService)) func(*class) *class {
		return func(c *class) *class {
			c.Spec = v1alpha1.LoadBalancerClassSpec{Service: &v1alpha1.ClassService{Type: "LoadBalancer"}}
			if change != nil {
				change(c.Spec.Service)
			}
			return c
		}
	}
	none := func(*class) *class { return nil }
	tenant := func(s v1alpha1.TenantSpec) *v1alpha1.Tenant {
		return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: s}
	}
	for name, c := range map[string]struct {
		spec   func(*spec)
		class  func(*class) *class
		tenant *v1alpha1.Tenant
		want   string
	}{
		"suspended": {tenant: tenant(v1alpha1.TenantSpec{Suspend: true}),
			want: `metadata.namespace: Tenant "prod" is suspended: the hub's operator sets its spec.suspend to false.`},
		"another class": {tenant: tenant(v1alpha1.TenantSpec{Classes: []string{"core"}}),
			want: `spec.className: class "edge" is not among those that the Tenant may use: use one of ["core"], or ask the hub's operator.`},
		"no class": {spec: func(s *spec) { s.ClassName = "" }, class: none,
			want: "spec.className: no class is named and none is marked as default: name one, or have the hub's operator mark one."},
		"no such class": {class: none,
			want: `spec.className: class "edge" doesn't exist: name one that does, or have the hub's operator create it.`},
		"a provider kind": {spec: func(s *spec) {
			s.ClassName, s.InfrastructureRef = "", &clusterv1.ObjectReference{APIGroup: "x", Kind: "X", Name: "x"}
		}, class: none,
			want: `spec.infrastructureRef.apiGroup: "x" has no provider kinds: use infrastructure.cluster.x-k8s.io.`},
		"a provider kind for a Tenant": {tenant: tenant(v1alpha1.TenantSpec{}), spec: func(s *spec) { s.ClassName, s.InfrastructureRef = "", &clusterv1.ObjectReference{Kind: "X", Name: "x"} }, class: none,
			want: "spec.infrastructureRef: provider kinds serve no LoadBalancers of Tenants yet: name a class with proxies or of Services."},
		"a class of nothing": {class: func(c *class) *class { c.Spec.Proxy = nil; return c },
			want: `spec.className: class "edge": spec: only classes with spec.proxy, spec.service, spec.infrastructureTemplate or spec.hooksOnly are supported: use one.`},
		"placement One": {class: func(c *class) *class { c.Spec.Proxy.Placement = "One"; return c },
			want: `spec.className: class "edge": spec.proxy.placement: placement One is not supported yet: use placement Every.`},
		"a Service of two minds": {class: services(func(s *v1alpha1.ClassService) { s.Type, s.LoadBalancerClass = "ClusterIP", "x/y" }),
			want: `spec.className: class "edge": spec.service.loadBalancerClass: a Service of type ClusterIP has no load balancer: remove loadBalancerClass, or use type LoadBalancer.`},
		"no port": {spec: func(s *spec) { s.Ports = nil },
			want: "spec.ports: there is no port: add one."},
		"sources": {spec: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8", "10.0.0.1"} },
			want: `spec.sourceRanges: "10.0.0.1", number 2 of them, is no CIDR, and nobody may connect meanwhile: write it as 192.0.2.0/24.`},
		"a PROXY protocol": {spec: func(s *spec) { s.ProxyProtocol = "V3" },
			want: `spec.proxyProtocol: version "V3" of the PROXY protocol is unknown, and targets that expect one would break: use V1 or V2.`},
		"a PROXY protocol over a Service": {spec: func(s *spec) { s.ProxyProtocol = "V2" }, class: services(nil),
			want: "spec.proxyProtocol: a Service of the hub doesn't send the PROXY protocol, and targets that expect it would break: use a class with proxies that do."},
		"sources of a ClusterIP": {spec: func(s *spec) { s.SourceRanges = []string{"10.0.0.0/8"} }, class: services(func(s *v1alpha1.ClassService) { s.Type = "ClusterIP" }),
			want: "spec.sourceRanges: a Service of type ClusterIP can't keep clients out: remove them, or use another class."},
		"every port": {spec: func(s *spec) { s.Ports[0].Mode, s.Ports[1].TLS = clusterv1.ModeHTTP, &clusterv1.PortTLS{} },
			want: "spec.ports[1].tls: TLS is not ended here yet: remove it, and end TLS at the targets."},
	} {
		l := &clusterv1.LoadBalancer{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}}
		l.Spec = spec{ClassName: "edge", Ports: []clusterv1.Port{port(80), port(443)}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
		of := proxies()
		if c.class != nil {
			of = c.class(of)
		}
		if c.spec != nil {
			c.spec(&l.Spec)
		}
		s := describe(facts{lb: l, problems: build.Validate(l, of, c.tenant), grant: ledger.Grant{}})
		accepted, ready := meta.FindStatusCondition(s.Conditions, clusterv1.ConditionAccepted), meta.FindStatusCondition(s.Conditions, clusterv1.ConditionReady)
		if accepted.Status != metav1.ConditionFalse || accepted.Message != c.want || ready.Message != c.want || ready.Reason != accepted.Reason {
			t.Errorf("%s: %s/%s says %q, Ready %q; want %q", name, accepted.Status, accepted.Reason, accepted.Message, ready.Message, c.want)
		}
		for _, p := range s.Ports {
			if p.Error == "" || name != "every port" && p.Message != c.want {
				t.Errorf("%s: port %+v", name, p)
			}
		}
	}
}
