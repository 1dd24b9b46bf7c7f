package provider

import (
	"testing"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/provider/contract"
)

func TestGate(t *testing.T) {
	a, b := clusterv1.Endpoint{Host: "a.example", Port: 443}, clusterv1.Endpoint{Host: "192.0.2.7", Port: 6443}
	for name, tc := range map[string]struct {
		said said
		// wait and differs are reasons.
		wait, differs string
		push          bool
		endpoint      clusterv1.Endpoint
	}{
		"nobody says anything":                                    {},
		"half an endpoint says nothing":                           {said: said{loadBalancer: clusterv1.Endpoint{Host: "a.example"}, own: b}, endpoint: b},
		"the object says it":                                      {said: said{own: a}, endpoint: a},
		"the LoadBalancer says it":                                {said: said{loadBalancer: a}, push: true, endpoint: a},
		"the LoadBalancer goes before the object":                 {said: said{loadBalancer: a, own: b}, push: true, endpoint: a},
		"both say the same":                                       {said: said{loadBalancer: a, own: a}, endpoint: a},
		"names are the same in any case":                          {said: said{loadBalancer: a, own: clusterv1.Endpoint{Host: "A.example", Port: 443}}, endpoint: clusterv1.Endpoint{Host: "A.example", Port: 443}},
		"the Cluster's hasn't come down":                          {said: said{cluster: a, controlPlane: true}, wait: contract.ReasonEndpointNotPushed},
		"nor where the object says the same":                      {said: said{cluster: a, own: a, controlPlane: true}, wait: contract.ReasonEndpointNotPushed},
		"the Cluster says another":                                {said: said{cluster: a, loadBalancer: b, controlPlane: true}, wait: contract.ReasonEndpointConflict},
		"the Cluster says the same":                               {said: said{cluster: a, loadBalancer: a, controlPlane: true}, push: true, endpoint: a},
		"a workload's load balancer isn't the Cluster's":          {said: said{cluster: a, loadBalancer: b}, push: true, endpoint: b},
		"what exists goes on, whatever the Cluster says":          {said: said{cluster: a, loadBalancer: b, own: b, controlPlane: true, exists: true}, endpoint: b},
		"what exists goes on, whatever the LoadBalancer says now": {said: said{loadBalancer: a, own: b, exists: true}, differs: contract.ReasonEndpointDiffers, endpoint: b},
		"what exists and lost its endpoint is told":               {said: said{loadBalancer: a, exists: true}, push: true, endpoint: a},
	} {
		t.Run(name, func(t *testing.T) {
			got := gate(tc.said)
			if r := reasonOf(got.wait); r != tc.wait {
				t.Errorf("wait is %q, not %q", r, tc.wait)
			}
			if r := reasonOf(got.differs); r != tc.differs {
				t.Errorf("differs is %q, not %q", r, tc.differs)
			}
			if (got.push != nil) != tc.push || tc.push && *got.push != tc.endpoint {
				t.Errorf("push is %v", got.push)
			}
			if got.endpoint != tc.endpoint {
				t.Errorf("endpoint is %v, not %v", got.endpoint, tc.endpoint)
			}
		})
	}
}

func reasonOf(p *problem) string {
	if p == nil {
		return ""
	}
	return p.reason
}
