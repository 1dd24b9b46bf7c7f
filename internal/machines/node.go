package machines

import (
	"maps"
	"slices"

	clusterv1 "fairlead.dev/fairlead/api/cluster/v1beta1"
	"fairlead.dev/fairlead/internal/member"
	corev1 "k8s.io/api/core/v1"
)

// maxZone is how long a target's zone may be.
const maxZone = 63

// ReadNode reads a Node of the hub. Of its annotations only those count that are ours. One of which nobody has heard for a while
// counts as not ready.
func ReadNode(n *corev1.Node) Machine {
	m := Machine{
		Name: n.Name, UID: string(n.UID), Labels: n.Labels, Annotations: maps.Clone(n.Annotations), Deleting: n.DeletionTimestamp != nil, Ready: "False",
	}
	maps.DeleteFunc(m.Annotations, func(key, _ string) bool {
		return key != member.StatusAnnotation && key != clusterv1.DisabledAnnotation
	})
	if zone := n.Labels[corev1.LabelTopologyZone]; len(zone) <= maxZone {
		m.Zone = zone
	}
	for _, a := range n.Status.Addresses {
		m.Addresses = append(m.Addresses, member.Address{Type: string(a.Type), Value: a.Address})
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			m.Ready = "True"
		}
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == member.ScaleDownTaint }) {
		m.Cause = member.ScaleDown
	}
	return m
}

// Trim returns what ReadNode reads of a Node, and its versions, and leaves the rest out: a cache holds thousands. It changes n.
func Trim(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: n.ObjectMeta}
	out.TypeMeta, out.ManagedFields, out.OwnerReferences, out.Finalizers = n.TypeMeta, nil, nil, nil
	maps.DeleteFunc(out.Annotations, func(key, _ string) bool {
		return key != member.StatusAnnotation && key != clusterv1.DisabledAnnotation
	})
	for _, t := range n.Spec.Taints {
		if t.Key == member.ScaleDownTaint {
			out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: t.Key, Effect: t.Effect})
		}
	}
	out.Status.Addresses = n.Status.Addresses
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}
