package endpoint

import (
	"reflect"
	"testing"
)

var (
	test  = HostPort{"test.example.com", 443}
	vip   = HostPort{"192.0.2.7", 6443}
	elb   = HostPort{"my-cluster-1234567890.region.elb.amazonaws.com", 1234}
	infra = HostPort{"10.40.85.102", 1234}
)

// act writes what a plan says, as the controllers do.
func act(f Facts, p Plan) Facts {
	if p.Cluster.Whole() {
		f.Cluster = p.Cluster
	}
	kept := f.explicit()
	if g := p.Generated; g != nil {
		kept = append(kept, ClusterEndpoint{Name: "my-cluster", HostPort: g.HostPort, Generated: true, Source: g.Source, Surfaced: g.Same(f.Cluster)})
	}
	f.Endpoints = kept
	if p.InfraCluster.Whole() {
		i := *f.InfraCluster
		i.Endpoint, f.InfraCluster = p.InfraCluster, &i
	}
	if p.LoadBalancer.Whole() || p.Provider.Whole() {
		l := *f.LoadBalancer
		if p.LoadBalancer.Whole() {
			l.Spec = p.LoadBalancer
		}
		if p.Provider.Whole() {
			v := *l.Provider
			v.Spec, l.Provider = p.Provider, &v
		}
		f.LoadBalancer = &l
	}
	return f
}

// rest acts until nothing more is to be written.
func rest(t testing.TB, f Facts) (Facts, Plan) {
	t.Helper()
	for range 6 {
		p := Decide(f)
		next := act(f, p)
		if reflect.DeepEqual(next, f) {
			return f, p
		}
		f = next
	}
	t.Fatalf("it doesn't come to rest: %+v, %+v", f, Decide(f))
	return f, Plan{}
}

func reasons(p Plan) []string {
	var out []string
	for _, x := range p.Problems {
		out = append(out, x.Reason)
	}
	return out
}

func lb(change ...func(*LoadBalancer)) *LoadBalancer {
	l := &LoadBalancer{Name: "my-cluster-control-plane-lb"}
	for _, f := range change {
		f(l)
	}
	return l
}

func granted(l *LoadBalancer)  { l.Granted = vip }
func up(l *LoadBalancer)       { l.Granted, l.Up = vip, true }
func provided(l *LoadBalancer) { l.Provider = &Provider{} }
func spec(h HostPort) func(*LoadBalancer) {
	return func(l *LoadBalancer) { l.Spec = h }
}

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %+v, not %+v", what, got, want)
	}
}

// The three scenarios of the Cluster, as the load balancer proposal names them.
func TestClusterScenarios(t *testing.T) {
	t.Run("externally managed endpoint and control plane", func(t *testing.T) {
		// Spec.ControlPlane.Endpoint is non-empty, Spec.ControlPlane.ProviderRef is nil: nothing of the Cluster is touched.
		f, p := rest(t, Facts{Cluster: test, InUse: true})
		is(t, "the Cluster", f.Cluster, test)
		is(t, "the ClusterEndpoint", *p.Generated, Generated{test, FromCluster})
		is(t, "problems", reasons(p), []string(nil))
	})
	t.Run("externally managed endpoint", func(t *testing.T) {
		// If cp.Spec.Endpoint is empty, set cp.Spec.Endpoint to Spec.ControlPlane.Endpoint: the LoadBalancer stands for it today.
		f, p := rest(t, Facts{Cluster: test, LoadBalancer: lb(up)})
		is(t, "the LoadBalancer", f.LoadBalancer.Spec, test)
		is(t, "the Cluster", f.Cluster, test)
		is(t, "the ClusterEndpoint", *p.Generated, Generated{test, FromCluster})
		// If it is non-empty and is not equal, error.
		f, p = rest(t, Facts{Cluster: test, LoadBalancer: lb(up, spec(elb))})
		is(t, "problems", reasons(p), []string{ReasonEndpointConflict})
		is(t, "the Cluster", f.Cluster, test)
		is(t, "the LoadBalancer", f.LoadBalancer.Spec, elb)
		// If it is non-empty and is equal, all is well; and so it is where it is one of several names.
		_, p = rest(t, Facts{Cluster: test, LoadBalancer: lb(up, spec(HostPort{"TEST.example.com.", 443}))})
		is(t, "problems", reasons(p), []string(nil))
		_, p = rest(t, Facts{Cluster: test, LoadBalancer: lb(up, spec(elb), func(l *LoadBalancer) { l.Alternates = []HostPort{test} })})
		is(t, "problems", reasons(p), []string(nil))
	})
	t.Run("Cluster API managed endpoint", func(t *testing.T) {
		// If cp.Spec.Endpoint is empty, return early and wait.
		f, p := rest(t, Facts{LoadBalancer: lb()})
		is(t, "the Cluster", f.Cluster, HostPort{})
		is(t, "it waits", p.Waits, "LoadBalancer my-cluster-control-plane-lb has no address yet")
		f, p = rest(t, Facts{LoadBalancer: lb(granted)})
		is(t, "the Cluster", f.Cluster, HostPort{})
		is(t, "it waits", p.Waits, "LoadBalancer my-cluster-control-plane-lb is not served yet")
		// As soon as the frontend exists it is surfaced, before any member is healthy.
		f, p = rest(t, Facts{LoadBalancer: lb(up)})
		is(t, "the Cluster", f.Cluster, vip)
		is(t, "the LoadBalancer", f.LoadBalancer.Spec, vip)
		is(t, "the ClusterEndpoint", *p.Generated, Generated{vip, FromLoadBalancer})
		is(t, "it waits", p.Waits, "")
	})
}

// The three of the KubeadmControlPlane, whose loadBalancerRef is an annotation today.
func TestKubeadmControlPlaneScenarios(t *testing.T) {
	t.Run("Load Balancer specified, externally managed endpoint", func(t *testing.T) {
		f, _ := rest(t, Facts{Cluster: test, LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}})
		is(t, "the LoadBalancer", f.LoadBalancer.Spec, test)
		is(t, "the InfraCluster", f.InfraCluster.Endpoint, test)
	})
	t.Run("Load Balancer specified, provider managed endpoint", func(t *testing.T) {
		f, _ := rest(t, Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}})
		is(t, "the Cluster", f.Cluster, vip)
		is(t, "the InfraCluster", f.InfraCluster.Endpoint, vip)
	})
	t.Run("Load Balancer not specified (fallback behavior)", func(t *testing.T) {
		// Only a mirror is made, nothing else is touched; before there is an endpoint, not even that.
		before := Facts{InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}}
		f, p := rest(t, before)
		is(t, "all", f, before)
		is(t, "the plan", p, Plan{})
		f, p = rest(t, Facts{Cluster: infra, InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster", Endpoint: infra}})
		is(t, "the Cluster", f.Cluster, infra)
		is(t, "the ClusterEndpoint", *p.Generated, Generated{infra, FromInfraCluster})
		is(t, "the warning", reasons(p), []string{ReasonLegacyEndpoint})
		f, p = rest(t, Facts{Cluster: test, InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}})
		is(t, "the InfraCluster", f.InfraCluster.Endpoint, HostPort{})
		is(t, "the ClusterEndpoint", *p.Generated, Generated{test, FromCluster})
	})
}

// The two of the LoadBalancer.
func TestLoadBalancerScenarios(t *testing.T) {
	t.Run("externally managed endpoint", func(t *testing.T) {
		// "gate provider load balancer reconciliation when user defined endpoint hasn't yet been pushed down to LB Provider"
		f := Facts{Cluster: test, LoadBalancer: lb(provided)}
		p := Decide(f)
		is(t, "it may start", p.ProviderMayStart, false)
		is(t, "the provider kind", p.Provider, test)
		f, p = rest(t, f)
		is(t, "it may start", p.ProviderMayStart, true)
		is(t, "the provider kind", f.LoadBalancer.Provider.Spec, test)
		// Generic kinds take precedence, until there is something outside.
		f.LoadBalancer.Provider = &Provider{Spec: elb}
		f, _ = rest(t, f)
		is(t, "the provider kind", f.LoadBalancer.Provider.Spec, test)
		f.LoadBalancer.Provider = &Provider{Spec: elb, Exists: true}
		f, p = rest(t, f)
		is(t, "the provider kind", f.LoadBalancer.Provider.Spec, elb)
		is(t, "problems", reasons(p), []string{ReasonLBMatchesConfig})
	})
	t.Run("provider managed endpoint", func(t *testing.T) {
		f, p := rest(t, Facts{LoadBalancer: lb(provided)})
		is(t, "it may start", p.ProviderMayStart, true)
		is(t, "the Cluster", f.Cluster, HostPort{})
		f.LoadBalancer = lb(func(l *LoadBalancer) { l.Granted, l.Up, l.Provider = elb, true, &Provider{Spec: elb, Exists: true} })
		f, p = rest(t, f)
		is(t, "the Cluster", f.Cluster, elb)
		is(t, "the LoadBalancer", f.LoadBalancer.Spec, elb)
		is(t, "problems", reasons(p), []string(nil))
	})
}

// The three of flexible managed endpoints: a provider Foo with its managed Kubernetes FKS.
func TestFlexibleEndpointScenarios(t *testing.T) {
	made := []ClusterEndpoint{{Name: "from-foo", HostPort: elb}}
	t.Run("Scenario 1: the entire Kubernetes Cluster infrastructure", func(t *testing.T) {
		// There is no FKSCluster; the control plane's controller makes a ClusterEndpoint, which surfaces.
		f, p := rest(t, Facts{Endpoints: made})
		is(t, "the Cluster", f.Cluster, elb)
		is(t, "the primary", p.Primary, "from-foo")
		is(t, "a generated one", p.Generated, (*Generated)(nil))
	})
	t.Run("Scenario 2: only of a subset of the Kubernetes Cluster infrastructure", func(t *testing.T) {
		// The FKSCluster makes a bastion host, and no endpoint.
		f, _ := rest(t, Facts{Endpoints: made, InfraCluster: &InfraCluster{Group: infrastructure, Kind: "FKSCluster", Name: "my-cluster"}})
		is(t, "the Cluster", f.Cluster, elb)
		is(t, "the FKSCluster", f.InfraCluster.Endpoint, HostPort{})
	})
	t.Run("Scenario 3: not taking care of the control plane endpoint", func(t *testing.T) {
		// The FKSCluster makes an address and its ClusterEndpoint; that takes precedence over the field that it may still set.
		f, p := rest(t, Facts{Cluster: infra, Endpoints: made, InfraCluster: &InfraCluster{Group: infrastructure, Kind: "FKSCluster", Name: "my-cluster", Endpoint: infra}})
		is(t, "the Cluster", f.Cluster, elb)
		is(t, "problems", reasons(p), []string(nil))
	})
}
