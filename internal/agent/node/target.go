package node

import (
	"net/netip"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/member"
	v1 "k8s.io/api/core/v1"
)

const maxZone = 63

// Target turns a Node into a target; why says why it is none.
func Target(n *v1.Node) (t v1alpha1.Target, why string) {
	switch {
	case n.DeletionTimestamp != nil:
		return t, "it is being deleted"
	case member.Excluded(n.Labels):
		return t, "it is labelled " + v1.LabelNodeExcludeBalancers
	}
	addresses := addresses(n)
	if len(addresses) == 0 {
		return t, "it has no address yet"
	}
	ready := ready(n)
	t = v1alpha1.Target{Name: n.Name, UID: string(n.UID), Addresses: addresses, Ready: &ready, State: v1alpha1.TargetServing}
	if zone := n.Labels[v1.LabelTopologyZone]; len(zone) <= maxZone {
		t.Zone = zone
	}
	if draining(n) {
		t.State = v1alpha1.TargetDraining
	}
	return t, ""
}

func draining(n *v1.Node) bool {
	if _, disabled := n.Annotations[clusterv1.DisabledAnnotation]; disabled {
		return true
	}
	return slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == member.ScaleDownTaint })
}

func ready(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// addresses are the first of each family, internal before external, in the Node's own order of families.
func addresses(n *v1.Node) []string {
	var out []string
	var has4, has6 bool
	for _, kind := range []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, x := range n.Status.Addresses {
			a, err := netip.ParseAddr(x.Address)
			if x.Type != kind || err != nil {
				continue
			}
			has := &has6
			if a = a.Unmap(); a.Is4() {
				has = &has4
			}
			if !*has {
				*has = true
				out = append(out, a.String())
			}
		}
	}
	return out
}
