package endpoint

import (
	"fmt"
	"slices"
	"strings"
)

// Choose returns which of a control plane's LoadBalancers publishes its endpoint, where there may be several, as an internal
// one beside an external one: the one that the Cluster names; where it names none a lone one, or the one whose endpoint the Cluster has.
// nil: none does, for the reason that the Problem gives, or because there is none.
func Choose(all []LoadBalancer, named string, cluster HostPort) (*LoadBalancer, *Problem) {
	var names []string
	for i := range all {
		if all[i].Name == named {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	slices.Sort(names)
	switch {
	case len(all) == 0:
		return nil, nil
	case named != "":
		return nil, &Problem{
			Reason: ReasonNotPrimary, Of: FromLoadBalancer,
			Message: fmt.Sprintf("the Cluster names LoadBalancer %s as its control plane's, which isn't there, or is another Cluster's: make it, or name another", named),
		}
	case len(all) == 1:
		return &all[0], nil
	}
	has := slices.DeleteFunc(slices.Clone(all), func(l LoadBalancer) bool {
		return !cluster.Whole() || !l.Spec.Same(cluster) && !l.Granted.Same(cluster)
	})
	if len(has) == 1 {
		return &has[0], nil
	}
	return nil, &Problem{
		Reason: ReasonNoPrimary, Of: FromLoadBalancer,
		Message: fmt.Sprintf("the LoadBalancers %s are all of one control plane: name the one whose endpoint is published in the Cluster's annotation loadbalancer.cluster.x-k8s.io/name", strings.Join(names, ", ")),
	}
}
