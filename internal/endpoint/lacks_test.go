package endpoint

import (
	"strings"
	"testing"
)

// A ClusterEndpoint whose Service gives no host and port goes before all others, and takes nothing away: what the Cluster has stays, and
// is mirrored, so that it can be restored.
func TestAServiceThatLacksSomething(t *testing.T) {
	pending := &Problem{Reason: "ServicePending", Message: "it has no address yet: wait"}
	lacking := func(primary bool) ClusterEndpoint {
		return ClusterEndpoint{Name: "a", Primary: primary, Lacks: pending}
	}
	other := func(primary bool) ClusterEndpoint { return ClusterEndpoint{Name: "b", HostPort: elb, Primary: primary} }
	mirror := func(s Source) ClusterEndpoint {
		return ClusterEndpoint{Name: "my-cluster", HostPort: test, Generated: true, Source: s}
	}
	metal := &InfraCluster{Group: infrastructure, Kind: "Metal3Cluster", Name: "my-cluster"}
	for name, c := range map[string]struct {
		facts             Facts
		cluster, mirrored HostPort
		told              HostPort // the InfraCluster
		problems          string
	}{
		"nothing else":                              {Facts{Endpoints: []ClusterEndpoint{lacking(false)}}, HostPort{}, HostPort{}, HostPort{}, "ServicePending"},
		"a LoadBalancer that is served":             {Facts{LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{lacking(false)}}, HostPort{}, HostPort{}, HostPort{}, "ServicePending"},
		"the Cluster has one":                       {Facts{Cluster: test, Endpoints: []ClusterEndpoint{lacking(false)}}, test, test, HostPort{}, "ServicePending"},
		"the Cluster has one, in use":               {Facts{Cluster: test, InUse: true, Endpoints: []ClusterEndpoint{lacking(false)}}, test, test, HostPort{}, "ServicePending"},
		"the Cluster had one":                       {Facts{Endpoints: []ClusterEndpoint{lacking(false), mirror(FromCluster)}}, test, test, HostPort{}, "ServicePending"},
		"the Cluster never had it":                  {Facts{LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{lacking(false), mirror(FromLoadBalancer)}}, HostPort{}, HostPort{}, HostPort{}, "ServicePending"},
		"half an endpoint":                          {Facts{Cluster: HostPort{Host: "192.0.2.7"}, LoadBalancer: lb(up), Endpoints: []ClusterEndpoint{lacking(false)}}, HostPort{Host: "192.0.2.7"}, HostPort{}, HostPort{}, "EndpointIncomplete,ServicePending"},
		"an InfraCluster that is to be told":        {Facts{Cluster: test, InfraCluster: metal, Endpoints: []ClusterEndpoint{lacking(false)}}, test, test, HostPort{}, "ServicePending"},
		"another one, and it is primary":            {Facts{Endpoints: []ClusterEndpoint{lacking(true), other(false)}}, HostPort{}, HostPort{}, HostPort{}, "ServicePending"},
		"another one is primary":                    {Facts{Cluster: test, Endpoints: []ClusterEndpoint{lacking(false), other(true)}}, elb, HostPort{}, HostPort{}, ""},
		"another one, and none is primary":          {Facts{Endpoints: []ClusterEndpoint{lacking(false), other(false)}}, HostPort{}, HostPort{}, HostPort{}, ReasonNoPrimary},
		"the Cluster is paused":                     {Facts{Still: "the Cluster is paused", Endpoints: []ClusterEndpoint{lacking(false)}}, HostPort{}, HostPort{}, HostPort{}, ""},
		"the Cluster is paused, and it is mirrored": {Facts{Still: "the Cluster is paused", Cluster: test, Endpoints: []ClusterEndpoint{lacking(false), mirror(FromCluster)}}, test, test, HostPort{}, ""},
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
			if f.LoadBalancer != nil && !strings.Contains(p.Waits, "ClusterEndpoint a") {
				t.Errorf("its LoadBalancer waits for %q", p.Waits)
			}
		})
	}
}
