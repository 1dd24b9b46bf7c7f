package endpoint

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPrecedence(t *testing.T) {
	explicit := func(name string, h HostPort, primary bool) ClusterEndpoint {
		return ClusterEndpoint{Name: name, HostPort: h, Primary: primary}
	}
	mirror := func(h HostPort, s Source) ClusterEndpoint {
		return ClusterEndpoint{Name: "my-cluster", HostPort: h, Generated: true, Source: s}
	}
	metal := func(h HostPort) *InfraCluster {
		return &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster", Endpoint: h}
	}
	aws := func(kind any) *InfraCluster {
		return &InfraCluster{Group: infrastructure, Kind: "AWSCluster", Name: "my-cluster", Spec: map[string]any{"controlPlaneLoadBalancer": map[string]any{"loadBalancerType": kind}}}
	}
	for name, c := range map[string]struct {
		facts    Facts
		cluster  HostPort
		mirrored HostPort // of the generated one; zero: there is none
		told     HostPort // the InfraCluster
		problems string
	}{
		"nothing":                                          {Facts{}, HostPort{}, HostPort{}, HostPort{}, ""},
		"a generated one follows the Cluster":              {Facts{Cluster: test, Endpoints: []ClusterEndpoint{mirror(elb, FromCluster)}}, test, test, HostPort{}, ""},
		"a generated one goes when another comes":          {Facts{Cluster: test, Endpoints: []ClusterEndpoint{mirror(test, FromCluster), explicit("a", test, false)}}, test, HostPort{}, HostPort{}, ""},
		"an explicit one before it is in use":              {Facts{Cluster: test, Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, elb, HostPort{}, HostPort{}, ""},
		"an explicit one while another is in use":          {Facts{Cluster: test, InUse: true, Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, test, HostPort{}, HostPort{}, ReasonEndpointConflict},
		"the same, and it is accepted":                     {Facts{Cluster: test, InUse: true, Accepted: elb, Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, elb, HostPort{}, HostPort{}, ""},
		"the same, and another is accepted":                {Facts{Cluster: test, InUse: true, Accepted: vip, Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, test, HostPort{}, HostPort{}, ReasonEndpointConflict},
		"in use, and nothing to overwrite":                 {Facts{InUse: true, Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, elb, HostPort{}, HostPort{}, ""},
		"of two the primary":                               {Facts{Endpoints: []ClusterEndpoint{explicit("a", elb, false), explicit("b", test, true)}}, test, HostPort{}, HostPort{}, ""},
		"of two none is primary":                           {Facts{LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{explicit("a", elb, false), explicit("b", test, false)}}, HostPort{}, HostPort{}, HostPort{}, ReasonNoPrimary},
		"of two both are":                                  {Facts{Cluster: vip, Endpoints: []ClusterEndpoint{explicit("a", elb, true), explicit("b", test, true)}}, vip, HostPort{}, HostPort{}, ReasonNoPrimary},
		"one without host counts for none":                 {Facts{LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{explicit("a", HostPort{}, true)}}, vip, vip, HostPort{}, ""},
		"an explicit one before the LoadBalancer's":        {Facts{LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, elb, HostPort{}, HostPort{}, ""},
		"an explicit one against the LoadBalancer's":       {Facts{LoadBalancer: lb(up, spec(test)), Endpoints: []ClusterEndpoint{explicit("a", elb, false)}}, elb, HostPort{}, HostPort{}, ReasonEndpointConflict},
		"the Cluster was replaced, and is restored":        {Facts{Endpoints: []ClusterEndpoint{mirror(test, FromCluster)}, LoadBalancer: lb(up)}, test, test, HostPort{}, ""},
		"what it had is restored, and not what is granted": {Facts{Endpoints: []ClusterEndpoint{{Name: "my-cluster", HostPort: test, Generated: true, Source: FromLoadBalancer, Surfaced: true}}, LoadBalancer: lb(up)}, test, test, HostPort{}, ""},
		"what it never had isn't restored":                 {Facts{Endpoints: []ClusterEndpoint{mirror(test, FromLoadBalancer)}, LoadBalancer: lb(up)}, vip, vip, HostPort{}, ""},
		"nor without its LoadBalancer":                     {Facts{Endpoints: []ClusterEndpoint{mirror(test, FromLoadBalancer)}}, HostPort{}, HostPort{}, HostPort{}, ""},
		"what it never had, paused":                        {Facts{Still: "the Cluster is paused", Endpoints: []ClusterEndpoint{mirror(test, FromLoadBalancer)}, LoadBalancer: lb(up)}, HostPort{}, test, HostPort{}, ""},
		"there is a kubeconfig, so it had it":              {Facts{Kubeconfig: true, Endpoints: []ClusterEndpoint{mirror(test, FromLoadBalancer)}, LoadBalancer: lb(up)}, test, test, HostPort{}, ""},
		"the LoadBalancer was told, so it had it":          {Facts{Endpoints: []ClusterEndpoint{mirror(test, FromLoadBalancer)}, LoadBalancer: lb(up, spec(test))}, test, test, HostPort{}, ""},
		"an InfraCluster's, which can't be read now":       {Facts{Cluster: test, Endpoints: []ClusterEndpoint{mirror(test, FromInfraCluster)}}, test, test, HostPort{}, ReasonLegacyEndpoint},
		"half an endpoint, which is completed":             {Facts{Cluster: HostPort{Host: "192.0.2.7"}, LoadBalancer: lb(up)}, vip, vip, HostPort{}, ""},
		"half an endpoint of another":                      {Facts{Cluster: HostPort{Host: "api.example.com"}, LoadBalancer: lb(up)}, HostPort{Host: "api.example.com"}, HostPort{}, HostPort{}, ReasonEndpointIncomplete},
		"half an endpoint, and nothing to complete it":     {Facts{Cluster: HostPort{Port: 6443}}, HostPort{Port: 6443}, HostPort{}, HostPort{}, ReasonEndpointIncomplete},
		"paused":                                        {Facts{Still: "the Cluster is paused", LoadBalancer: lb(up)}, HostPort{}, HostPort{}, HostPort{}, ""},
		"paused, and what was generated stays":          {Facts{Still: "the Cluster is paused", Cluster: test, Endpoints: []ClusterEndpoint{mirror(vip, FromLoadBalancer)}}, test, vip, HostPort{}, ""},
		"an InfraCluster that must be told":             {Facts{LoadBalancer: lb(up), InfraCluster: metal(HostPort{})}, vip, vip, vip, ""},
		"an InfraCluster that says another":             {Facts{LoadBalancer: lb(up), InfraCluster: metal(infra)}, vip, vip, infra, ReasonInfraDiffers},
		"an InfraCluster whose switch is off":           {Facts{LoadBalancer: lb(up), InfraCluster: aws("disabled")}, vip, vip, vip, ""},
		"an InfraCluster whose switch is on":            {Facts{LoadBalancer: lb(up), InfraCluster: aws("nlb")}, vip, vip, HostPort{}, ReasonInfraCompetes},
		"an InfraCluster whose switch isn't set":        {Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "AWSCluster"}}, vip, vip, HostPort{}, ReasonInfraCompetes},
		"an InfraCluster that must not be told":         {Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "DevCluster", Endpoint: infra}}, vip, vip, infra, ""},
		"an InfraCluster that always competes":          {Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "GCPCluster"}}, vip, vip, HostPort{}, ReasonInfraCompetes},
		"an InfraCluster of which nothing is known":     {Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "FooCluster"}}, vip, vip, HostPort{}, ""},
		"one that has the name of another group's kind": {Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: "example.com", Kind: "Metal3Cluster"}}, vip, vip, HostPort{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := rest(t, c.facts)
			is(t, "the Cluster", f.Cluster, c.cluster)
			mirrored := HostPort{}
			if g := f.generated(); g != nil {
				mirrored = g.HostPort
			}
			is(t, "the generated ClusterEndpoint", mirrored, c.mirrored)
			if f.InfraCluster != nil {
				is(t, "the InfraCluster", f.InfraCluster.Endpoint, c.told)
			}
			is(t, "problems", strings.Join(reasons(p), ","), c.problems)
			for _, x := range p.Problems {
				if !strings.Contains(x.Message, ": ") {
					t.Errorf("%q says no fix", x.Message)
				}
			}
		})
	}
}

// What an endpoint came from stays, though others have it too by then.
func TestTheSourceStays(t *testing.T) {
	f, _ := rest(t, Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}})
	f.LoadBalancer = nil
	_, p := rest(t, f)
	is(t, "the source", p.Generated.Source, FromLoadBalancer)
	is(t, "the InfraCluster", f.InfraCluster.Endpoint, vip)
	is(t, "problems", reasons(p), []string(nil))
}

// The InfraCluster is told when the Cluster has it: Cluster API takes over what an InfraCluster says.
func TestTheClusterComesFirst(t *testing.T) {
	f := Facts{LoadBalancer: lb(up), InfraCluster: &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}}
	p := Decide(f)
	is(t, "the Cluster", p.Cluster, vip)
	is(t, "the InfraCluster", p.InfraCluster, HostPort{})
	is(t, "the InfraCluster", Decide(act(f, p)).InfraCluster, vip)
}

// A conflict names both endpoints, and says how to go on.
func TestAConflictNamesBothEndpoints(t *testing.T) {
	_, p := rest(t, Facts{Cluster: test, InUse: true, Endpoints: []ClusterEndpoint{{Name: "a", HostPort: elb}}})
	for _, want := range []string{test.String(), elb.String(), "ClusterEndpoint a", "annotation"} {
		if !strings.Contains(p.Problems[0].Message, want) {
			t.Errorf("%q doesn't say %q", p.Problems[0].Message, want)
		}
	}
}

// Whatever there is: an endpoint in use is never overwritten unless that was accepted, no half one is written, what was
// written once isn't written again, and all comes to rest.
func TestEndpointsComeToRest(t *testing.T) {
	some := []HostPort{{}, test, vip, elb, infra, {Host: "half.example.com"}, {Port: 6443}}
	rapid.Check(t, func(t *rapid.T) {
		h := func(name string) HostPort { return rapid.SampledFrom(some).Draw(t, name) }
		f := Facts{
			Cluster: h("cluster"), InUse: rapid.Bool().Draw(t, "inUse"), Kubeconfig: rapid.Bool().Draw(t, "kubeconfig"), Accepted: h("accepted"), ControlPlane: h("controlPlane"),
			Still: rapid.SampledFrom([]string{"", "", "", "the Cluster is paused"}).Draw(t, "still"),
		}
		if rapid.Bool().Draw(t, "infra") {
			push := rapid.SampledFrom(Pushes()).Draw(t, "push")
			f.InfraCluster = &InfraCluster{Group: push.Group, Kind: push.Kind, Name: "i", Endpoint: h("infraEndpoint")}
		}
		if rapid.Bool().Draw(t, "lb") {
			f.LoadBalancer = &LoadBalancer{Name: "l", Spec: h("spec"), Granted: h("granted"), Up: rapid.Bool().Draw(t, "up")}
			if rapid.Bool().Draw(t, "provided") {
				f.LoadBalancer.Provider = &Provider{Spec: h("provider"), Exists: rapid.Bool().Draw(t, "exists")}
			}
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "explicit") {
			e := ClusterEndpoint{Name: string(rune('a' + i)), HostPort: h("endpoint"), Primary: rapid.Bool().Draw(t, "primary")}
			if rapid.Bool().Draw(t, "lacks") {
				e.HostPort, e.Lacks = HostPort{}, &Problem{Reason: "ServicePending", Message: "it has no address yet: wait"}
			}
			f.Endpoints = append(f.Endpoints, e)
		}
		if g := h("generated"); g.Whole() {
			f.Endpoints = append(f.Endpoints, ClusterEndpoint{Name: "my-cluster", HostPort: g, Generated: true, Source: rapid.SampledFrom([]Source{FromCluster, FromInfraCluster, FromControlPlane, FromLoadBalancer}).Draw(t, "source"), Surfaced: rapid.Bool().Draw(t, "surfaced")})
		}
		before := f.Cluster
		for range 6 {
			p := Decide(f)
			for what, w := range map[string]HostPort{"Cluster": p.Cluster, "InfraCluster": p.InfraCluster, "LoadBalancer": p.LoadBalancer, "provider": p.Provider} {
				if !w.Empty() && !w.Whole() {
					t.Fatalf("half an endpoint is written to the %s: %+v", what, w)
				}
				if !w.Empty() && f.Still != "" {
					t.Fatalf("the %s is written while nothing may be", what)
				}
			}
			if before.Whole() && f.InUse && p.Cluster.Whole() && !p.Cluster.Same(f.Accepted) {
				t.Fatalf("%s is in use, and overwritten by %s", before, p.Cluster)
			}
			if p.InfraCluster.Whole() && p.Cluster.Whole() {
				t.Fatal("the InfraCluster is told before the Cluster has it")
			}
			if p.InfraCluster.Whole() && (f.InfraCluster.Endpoint.Whole() || PushFor(f.InfraCluster.Group, f.InfraCluster.Kind).Policy != Tell) {
				t.Fatalf("the InfraCluster is told %s: %+v", p.InfraCluster, f.InfraCluster)
			}
			if l := f.LoadBalancer; l != nil && l.Provider != nil && p.ProviderMayStart && l.Spec.Whole() && !l.Provider.Exists && !l.Provider.Spec.Same(l.Spec) {
				t.Fatalf("the provider kind may start with %s, and the LoadBalancer says %s", l.Provider.Spec, l.Spec)
			}
			f = act(f, p)
		}
		if p := Decide(f); p.Cluster.Whole() || p.InfraCluster.Whole() || p.LoadBalancer.Whole() || p.Provider.Whole() {
			t.Fatalf("it doesn't come to rest: %+v", p)
		}
	})
}

func TestParse(t *testing.T) {
	for in, want := range map[string]HostPort{
		"api.example.com:6443": {"api.example.com", 6443}, "[fd00::7]:443": {"fd00::7", 443},
		"": {}, "api.example.com": {}, "api.example.com:": {}, ":6443": {}, "api.example.com:0": {}, "api.example.com:70000": {}, "fd00::7": {},
	} {
		got, err := Parse(in)
		if got != want || (err == nil) != want.Whole() {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if want.Whole() && got.String() != in {
			t.Errorf("%q is written as %q", in, got)
		}
	}
	if !(HostPort{"fd00::7", 1}).Same(HostPort{"fd00:0::7", 1}) || (HostPort{"a", 1}).Same(HostPort{"a", 2}) {
		t.Error("what is the same is told wrongly")
	}
}

func TestPushesAreEachKindOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Pushes() {
		if seen[p.Group+p.Kind] || p.Policy == "" || p.Policy != Tell && len(p.Needs) > 0 {
			t.Errorf("%+v", p)
		}
		seen[p.Group+p.Kind] = true
		for _, s := range p.Needs {
			if !strings.HasPrefix(s.Field, "spec.") || s.Must == s.Default {
				t.Errorf("%s: %+v", p.Kind, s)
			}
		}
	}
}

// The table of InfraClusters in the documents has each kind, and each field that is read.
func TestDocsNameWhatIsKnownOfInfraClusters(t *testing.T) {
	for _, name := range []string{"control-planes.md", "cluster-api.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Pushes() {
			if !strings.Contains(string(page), "`"+p.Kind+"`") {
				t.Errorf("docs/%s doesn't name %s", name, p.Kind)
			}
			for _, s := range p.Needs {
				if !strings.Contains(string(page), "`"+s.Field+": "+s.Must+"`") {
					t.Errorf("docs/%s doesn't say %s: %s of %s", name, s.Field, s.Must, p.Kind)
				}
			}
		}
	}
}
