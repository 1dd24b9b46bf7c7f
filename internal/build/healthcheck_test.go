package build

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/lb"
)

func TestWhatSaysSomethingOfATargetGroup(t *testing.T) {
	nodes := &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTP, Port: 10256, Path: "/healthz"}
	for _, c := range []struct {
		name     string
		own      *clusterv1.HealthCheck
		reported string
		want     bool
	}{
		{"its own", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 10256, Path: "/healthz"}.String(), true},
		{"one Service's", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 32000, Path: "/healthz"}.String(), false},
		{"another path", nodes, lb.Check{Kind: lb.CheckHTTP, Port: 10256, Path: "/"}.String(), false},
		{"another kind", nodes, lb.Check{Kind: lb.CheckTCP, Port: 10256}.String(), false},
		{"a name", nodes, "DNS", true},
		{"none of its own", nil, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"one that makes no sense", &clusterv1.HealthCheck{Type: "x"}, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"the port of the traffic", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, lb.Check{Kind: lb.CheckTCP, Port: 31080}.String(), true},
		{"the port of the traffic, another kind", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckTCP}, lb.Check{Kind: lb.CheckHTTP, Port: 31080, Path: "/"}.String(), false},
		{"the port of the traffic, a default path", &clusterv1.HealthCheck{Type: clusterv1.HealthCheckHTTPS}, lb.Check{Kind: lb.CheckHTTPS, Port: 31443, Path: "/"}.String(), true},
	} {
		if got := OfTargetGroup(c.own, c.reported); got != c.want {
			t.Errorf("%s: %s says something of it: %t", c.name, c.reported, got)
		}
	}
}
