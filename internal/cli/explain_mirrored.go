package cli

import (
	"fmt"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/agent/management"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// Elsewhere is what was read of a hub that is another cluster than the one that was asked.
type Elsewhere struct {
	*Objects
	// Namespace is that cluster's Tenant's.
	Namespace string
}

// isMirrored says that an agent has a hub elsewhere serve a LoadBalancer of this cluster.
func isMirrored(l *clusterv1.LoadBalancer) bool {
	return slices.Contains(l.Finalizers, clusterv1.MirrorFinalizer) || meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionMirrored) != nil
}

// mirroredRungs say why such a LoadBalancer is served, or isn't: by what its agent wrote, and by what the hub has where that was looked
// at; nil: it wasn't.
func mirroredRungs(l *clusterv1.LoadBalancer, hub *Elsewhere) []Rung {
	out := []Rung{told(l, "mirrored", clusterv1.ConditionMirrored, "", "the agent has not written it to the hub yet: see that it runs with --management")}
	if out[0].State == OK && hub == nil {
		out[0].Message += " Give --hub-kubeconfig to look there as well."
	}
	if hub != nil {
		out = append(out, hubRungs(hub, management.Key(l))...)
	} else {
		for _, r := range []struct{ name, kind string }{
			{"accepted", clusterv1.ConditionAccepted}, {"address", clusterv1.ConditionAddressGranted}, {"programmed", clusterv1.ConditionProgrammed},
		} {
			out = append(out, told(l, r.name, r.kind, "as the hub says", "the hub has not spoken of it as it stands here yet"))
		}
	}
	out = append(out, machinesRungs(l)...)
	if meta.FindStatusCondition(l.Status.Conditions, clusterv1.ConditionEndpointPublished) != nil {
		r := told(l, "endpoint", clusterv1.ConditionEndpointPublished, "its Cluster has it", "the agent has not looked at its Cluster's endpoint yet")
		if r.State.bad() {
			r.State = Warning // it is served
		}
		out = append(out, r)
	}
	return out
}

// told is a rung by a condition that the agent wrote. well is what to say where that says no more than its name, none where it doesn't
// speak of the present generation.
func told(l *clusterv1.LoadBalancer, name, kind, well, none string) Rung {
	r := Rung{Name: name, State: Waiting, Reason: clusterv1.ReasonPending, Message: none}
	if c := condition(l.Status.Conditions, kind, l.Generation); c != nil {
		r.fromCondition(c, Broken)
		if r.State == OK && r.Message == "" {
			r.Reason, r.Message = "", well
		}
	}
	return r
}

// hubRungs are those of what the hub has of a LoadBalancer.
func hubRungs(hub *Elsewhere, of types.NamespacedName) []Rung {
	out := []Rung{tenantRung(hub.Objects, hub.Namespace)}
	for _, l := range hub.LoadBalancers {
		if origin, ok := management.Origin(l); ok && origin == of && l.Namespace == hub.Namespace {
			return append(out, loadBalancerRungs(hub.Objects, l)...)
		}
	}
	return append(out, Rung{
		Name: "accepted", State: Broken, Message: fmt.Sprintf("the hub has no LoadBalancer in namespace %s that was made from it", hub.Namespace),
		Fix: "See that this is the agent's hub, and namespace; else what the condition Mirrored says.",
	})
}
