package endpoint

import "testing"

func TestChoose(t *testing.T) {
	front := func(name string, spec, granted HostPort) LoadBalancer {
		return LoadBalancer{Name: name, Spec: spec, Granted: granted}
	}
	internal, external := front("internal", HostPort{}, vip), front("external", elb, HostPort{})
	for name, c := range map[string]struct {
		all     []LoadBalancer
		named   string
		cluster HostPort
		want    string
		problem string
	}{
		"none":                            {nil, "", HostPort{}, "", ""},
		"none, though one is named":       {nil, "api", HostPort{}, "", ""},
		"one":                             {[]LoadBalancer{internal}, "", HostPort{}, "internal", ""},
		"one, and the Cluster has a name": {[]LoadBalancer{internal}, "", test, "internal", ""},
		"one, and another is named":       {[]LoadBalancer{internal}, "api", HostPort{}, "", ReasonNotPrimary},
		"the one that is named":           {[]LoadBalancer{internal, external}, "external", vip, "external", ""},
		"two, and none is named":          {[]LoadBalancer{internal, external}, "", HostPort{}, "", ReasonNoPrimary},
		"two, and the Cluster has one's":  {[]LoadBalancer{internal, external}, "", vip, "internal", ""},
		"the other's":                     {[]LoadBalancer{internal, external}, "", elb, "external", ""},
		"nobody's":                        {[]LoadBalancer{internal, external}, "", test, "", ReasonNoPrimary},
		"both's":                          {[]LoadBalancer{internal, front("b", vip, HostPort{})}, "", vip, "", ReasonNoPrimary},
	} {
		got, problem := Choose(c.all, c.named, c.cluster)
		chosen, reason := "", ""
		if got != nil {
			chosen = got.Name
		}
		if problem != nil {
			reason = problem.Reason
		}
		is(t, name, chosen, c.want)
		is(t, name+": the problem", reason, c.problem)
	}
}
