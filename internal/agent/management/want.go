package management

import (
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/api/fairlead/v1alpha1"
	"fairlead.dev/fairlead/internal/agent/service"
	"fairlead.dev/fairlead/internal/build"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Key names a LoadBalancer.
func Key(l *clusterv1.LoadBalancer) types.NamespacedName {
	return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
}

// Mirrored says that a LoadBalancer's targets are Machines, so that it is the hub's to serve, and the agent's to mirror.
func Mirrored(l *clusterv1.LoadBalancer) bool {
	return build.OfMachines(l)
}

// Wanted is what the hub is to have of a LoadBalancer.
type Wanted struct {
	Annotations map[string]string
	Spec        clusterv1.LoadBalancerSpec
}

// Want says that; have is what it has, nil if it has none. What is the Cluster's, and the Machines', stays here: the hub sees ports,
// addresses and TargetGroups.
func Want(l, have *clusterv1.LoadBalancer) Wanted {
	of := Key(l)
	s := l.Spec.DeepCopy()
	return Wanted{
		Annotations: map[string]string{v1alpha1.AnnotationOrigin: OriginOf(of), v1alpha1.AnnotationOriginUID: string(l.UID)},
		Spec: clusterv1.LoadBalancerSpec{
			ClassName: s.ClassName, InfrastructureRef: s.InfrastructureRef,
			TargetKind: &clusterv1.KindReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "TargetGroup"},
			Selector:   &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelTargets: Name(of)}},
			Ports:      build.Ports(&clusterv1.LoadBalancer{Spec: *s}), HealthCheck: healthCheck(s), FailOpen: s.FailOpen,
			Addresses: wish(l, have), AddressPools: s.AddressPools, IPFamilyPolicy: s.IPFamilyPolicy, IPFamilies: s.IPFamilies,
			SourceRanges: s.SourceRanges, SessionAffinity: s.SessionAffinity, SessionAffinityTimeout: s.SessionAffinityTimeout,
			TrafficDistribution: s.TrafficDistribution, ProxyProtocol: s.ProxyProtocol, DrainTimeout: s.DrainTimeout, IdleTimeout: s.IdleTimeout,
		},
	}
}

// healthCheck is the LoadBalancer's own. Where it has none, the hub would look for connections alone, for it doesn't know that the targets are
// API servers: those are asked whether they are ready. A control plane with further ports has other servers too, which may take nothing but
// connections.
func healthCheck(s *clusterv1.LoadBalancerSpec) *clusterv1.HealthCheck {
	ports := build.Ports(&clusterv1.LoadBalancer{Spec: *s})
	if s.HealthCheck != nil || s.Role != clusterv1.RoleControlPlane || len(ports) != 1 || ports[0].Protocol == clusterv1.ProtocolUDP {
		return s.HealthCheck
	}
	return build.Readyz()
}

// wish is which addresses are asked for: those that a person names; else those that it is asked for already, unless the hub can't
// give them; and where the hub has none of it, those that it had, so that a hub that is made anew gives it the same.
func wish(l, have *clusterv1.LoadBalancer) []string {
	var out []string
	switch {
	case len(l.Spec.Addresses) > 0:
		out = append(out, l.Spec.Addresses...)
	case have != nil && !service.WishRefused(have):
		out = append(out, have.Spec.Addresses...)
	case have == nil:
		for _, a := range l.Status.Addresses {
			if a.Type == clusterv1.AddressTypeIP {
				out = append(out, a.Value)
			}
		}
	}
	return out
}

// Same says that the hub has what is wanted. have is nil where it has none.
func (w *Wanted) Same(have *clusterv1.LoadBalancer) bool {
	if have == nil || !slices.Contains(have.Finalizers, clusterv1.Finalizer) || !equality.Semantic.DeepEqual(have.Spec, w.Spec) {
		return false
	}
	for k, v := range w.Annotations {
		if have.Annotations[k] != v {
			return false
		}
	}
	return true
}

// Labels of a TargetGroup in the hub: what the LoadBalancer selects it by, and that it is of Machines.
func Labels(inHub string) map[string]string {
	return map[string]string{v1alpha1.LabelTargets: inHub, v1alpha1.LabelGeneratedFrom: FromMachine}
}
